"""Plans for pages: blocks and copies in columns, each distinct plan once.

Slices of a tensor are that tensor: adjoining blocks of one lifetime are one, with the share that they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from memplace_env.placement.memory_plan import ALLOCATION, TRANSFER, MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program
from memplace_env.report.explanation.routes import saved_by_uses
from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.whole_tensors import JoinedBlocks, joined_blocks, part_text
from memplace_env.report.style import BLOCK_COLOURS

_KIND = {kind: index for index, kind in enumerate(BlockKind)}


def plan_document(task: Task, baseline: EvaluatedPlan, plans: Iterable[EvaluatedPlan]) -> dict[str, Any]:
    """Return what the page draws of a task's plans, as plain JSON values. Backing memory is not drawn.

    Args:
        task: the task.
        baseline: the plan with everything in the backing memory, against which blocks save time.
        plans: the plans; those that are equal are one.

    Returns:
        ops and types: T each; tensors and tensor_bytes: of `Program.whole`; levels: name and capacity, fastest first,
        backing last; kinds: name and colour of each kind of block; compute_ps: T; plans: by `MemoryPlan.key`, each
        with blocks and copies as columns, latency_ps, op_ps (T, the stall before each op included), stall_ps (T),
        tail_ps, moved and peak (L each, bytes). A block's `part` is that of `part_text`, its `saved_ps` what its uses
        save; a copy's `into` and `out_of` are the blocks that it fills and reads, -1 for the backing memory.
    """
    program, levels = task.program, task.accelerator.levels
    distinct = {evaluated.plan.key: evaluated for evaluated in plans}
    ordered = {key: distinct[key] for key in sorted(distinct)}
    return {
        "ops": list(program.op_name),
        "types": list(program.op_type),
        "tensors": list(program.whole.tensor_name),
        "tensor_bytes": program.whole.tensor_bytes.tolist(),
        "levels": [{"name": level.name, "capacity": int(level.capacity_bytes)} for level in levels],
        "kinds": [{"name": kind.value, "colour": BLOCK_COLOURS[kind]} for kind in BlockKind],
        "compute_ps": next((evaluated.report.compute_ps.tolist() for evaluated in ordered.values()), []),
        "plans": {key: _drawn(task, baseline, evaluated) for key, evaluated in ordered.items()},
    }


def _drawn(task: Task, baseline: EvaluatedPlan, evaluated: EvaluatedPlan) -> dict[str, Any]:
    plan, report = evaluated.plan, evaluated.report
    tensor, level, offset, start, end = plan.allocations.T
    arrived = arrivals(task, plan)
    joined = joined_blocks(task.program, tensor, offset, np.column_stack([level, start, end, arrived]))
    homes = _Homes(plan, joined)
    return {
        "blocks": {
            **_blocks(task.program, plan, joined, arrived),
            "saved_ps": _saved_ps(task, baseline, evaluated, homes, len(joined.block)),
        },
        "copies": _copies(task.program, plan, homes),
        "latency_ps": report.latency_ps,
        "op_ps": evaluated.op_ps.tolist(),
        "stall_ps": report.stall_ps.tolist(),
        "tail_ps": int(report.tail_ps),
        "moved": report.bytes_moved.tolist(),
        "peak": report.peak_bytes.tolist(),
    }


class _Homes:
    """The joined blocks of each tensor in each level."""

    def __init__(self, plan: MemoryPlan, joined: JoinedBlocks) -> None:
        self._blocks: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        rows = zip(plan.allocations.tolist(), joined.part_of.tolist(), strict=True)
        for (tensor, level, _, start, end), block in rows:
            self._blocks.setdefault((tensor, level), []).append((start, end, block))

    def find(self, tensor: int, level: int, first: int, last: int) -> int:
        """Return the block in which a tensor is at a level during some of these ops, -1 if there is none."""
        blocks = self._blocks.get((tensor, level), ())
        return next((block for start, end, block in blocks if start <= last and end >= first), -1)


def _blocks(program: Program, plan: MemoryPlan, joined: JoinedBlocks, arrived: Ints) -> dict[str, list[Any]]:
    rows = plan.allocations[joined.block]
    kinds = block_kinds(program, rows[:, 0], arrived[joined.block])
    columns = {name: rows[:, column].tolist() for column, name in enumerate(ALLOCATION)}
    slices = np.split(
        plan.allocations[np.argsort(joined.part_of, kind="stable"), 0], np.cumsum(np.bincount(joined.part_of))[:-1]
    )
    return {
        **columns,
        "tensor": program.whole_tensor[rows[:, 0]].tolist(),
        "bytes": joined.bytes.tolist(),
        "part": [part_text(program, each) for each in slices] if len(rows) else [],
        "kind": [_KIND[kind] for kind in kinds],
    }


def _saved_ps(task: Task, baseline: EvaluatedPlan, evaluated: EvaluatedPlan, homes: _Homes, blocks: int) -> list[int]:
    """Return the time that the uses of each block save against the baseline, in ps."""
    program, level = task.program, evaluated.plan.use_level
    saved = np.zeros(blocks + 1)  # the last is that of uses without a block
    use, use_ps = saved_by_uses(task, baseline, evaluated)
    rows = zip(program.use_tensor[use].tolist(), level[use].tolist(), program.use_op[use].tolist(), strict=True)
    np.add.at(saved, [homes.find(tensor, served, op, op) for tensor, served, op in rows], use_ps)
    return [round(ps) for ps in saved[:-1].tolist()]


def _copies(program: Program, plan: MemoryPlan, homes: _Homes) -> dict[str, list[int]]:
    """Return the copies; those of slices between the same blocks in one window are one."""
    rows = []
    for tensor, source, target, *window in plan.transfers.tolist():
        ends = homes.find(tensor, target, *window), homes.find(tensor, source, *window)
        rows.append((int(program.whole_tensor[tensor]), source, target, *window, *ends))
    distinct = list(dict.fromkeys(rows)) if program.slices else rows
    names = (*TRANSFER, "into", "out_of")
    return {name: [row[column] for row in distinct] for column, name in enumerate(names)}
