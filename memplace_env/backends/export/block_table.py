"""A plan as a table for other tools: which bytes hold which tensor, and when."""

from __future__ import annotations

import csv
import io
from typing import Final

from memplace_env.placement.backing_memory import backing_lives, backing_offsets
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import require_valid
from memplace_env.program.blocks import kinds_of
from memplace_env.program.program import TensorKind

HEADS: Final = "tensor kind level offset size first last first_op last_op in_place_of copied_from".split()


def csv_of(task: Task, plan: MemoryPlan) -> str:
    """Return a plan's blocks as comma-separated values: a line of heads, then a line each.

    | column              | meaning                                                                                  |
    |---------------------|------------------------------------------------------------------------------------------|
    | `tensor`, `kind`    | name, in a model file the value's; `weight`, `activation`, `input` or `output`            |
    | `level`             | name of the memory                                                                       |
    | `offset`, `size`    | bytes, the offset from the start of the memory's arena                                   |
    | `first`, `last`     | first and last op that need the block, counted from 0 in the plan's order                |
    | `first_op`, ...     | names of these ops; empty for `last` where the block lasts to the end of the program     |
    | `in_place_of`       | the operand over which the first op writes this tensor, or empty                         |
    | `copied_from`       | the memory from which a copy fills the block, or empty; C headers say when it may run    |

    Blocks in fast memory come first, then those in the backing memory, which have the addresses of the C header.

    Raises:
        PlanError: if the plan is not valid.
    """
    require_valid(task, plan)
    program, levels, kinds = task.program, task.accelerator.levels, kinds_of(task.program)
    over = {begin: int(plan.allocations[end, 0]) for end, begin in plan.handed_over(program)}
    blocks = [(*block, over.get(row)) for row, block in enumerate(plan.allocations.tolist())]
    first, last = (times.tolist() for times in backing_lives(task, plan))
    backing_offset = backing_offsets(task, plan)
    assert backing_offset is not None  # or else the plan is not valid
    blocks += [
        (tensor, task.backing, offset, first[tensor], last[tensor], None)
        for tensor, offset in enumerate(backing_offset.tolist())
        if offset >= 0
    ]
    text, op_name, copies = io.StringIO(), (*program.op_name, ""), plan.transfers
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADS)
    for tensor, level, offset, begin, end, operand in blocks:
        name, kind = program.tensor_name[tensor], TensorKind(kinds[tensor]).name.lower()
        where = levels[level].name, offset, int(program.tensor_bytes[tensor])
        given = "" if operand is None else program.tensor_name[operand]
        filled = copies[:, :3:2] == (tensor, level)
        source = copies[filled.all(axis=1) & (copies[:, 3] >= begin) & (copies[:, 4] <= end), 1]
        copied = levels[source[0]].name if len(source) else ""
        writer.writerow((name, kind, *where, begin, end, op_name[begin], op_name[end], given, copied))
    return text.getvalue()
