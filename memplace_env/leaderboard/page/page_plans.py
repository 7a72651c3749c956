"""Plans for the page: blocks and copies in columns, each distinct plan once.

Slices of a tensor are that tensor: adjoining blocks of one lifetime are one, with the share that they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from memplace_env.placement.memory_plan import ALLOCATION, TRANSFER, MemoryPlan
from memplace_env.placement.simulator import Report, time_plan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program
from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds
from memplace_env.report.plans.whole_tensors import JoinedBlocks, joined_blocks, part_text
from memplace_env.report.style import BLOCK_COLOURS

_KIND = {kind: index for index, kind in enumerate(BlockKind)}


def block_legend() -> list[dict[str, str]]:
    """Return name and colour of each kind of block, in the order of the numbers in `plan_document`."""
    return [{"name": kind.value, "colour": BLOCK_COLOURS[kind]} for kind in BlockKind]


def plan_key(plan: MemoryPlan) -> str:
    """Return a short key of a plan; equal plans of one program have the same."""
    digest = hashlib.sha256(plan.use_level.tobytes())
    for table in (plan.allocations, plan.transfers):
        digest.update(len(table).to_bytes(8, "big") + np.ascontiguousarray(table, dtype="<i8").tobytes())
    return digest.hexdigest()[:12]


def plan_document(task: Task, plans: Iterable[MemoryPlan]) -> dict[str, Any]:
    """Return the document that the page loads when an environment is opened.

    Times of ops are those of the cost arrays. Backing memory is not drawn.

    Returns:
        ops and types: T each; tensors: names of those of `Program.whole`; levels: name and capacity, fastest first,
        backing last; compute_ps: T; plans: by `plan_key`, each with blocks and copies as columns, op_ps (T, the stall
        before each op included), tail_ps, stall_ps, moved and peak (L each, bytes). A block's `part` is that of
        `part_text`; a copy's `into` and `out_of` are the blocks that it fills and reads, -1 for the backing memory.
    """
    program, levels = task.program, task.accelerator.levels
    distinct = {plan_key(plan): plan for plan in plans}
    reports = {key: time_plan(task, distinct[key]) for key in sorted(distinct)}
    return {
        "ops": list(program.op_name),
        "types": list(program.op_type),
        "tensors": list(program.whole.tensor_name),
        "levels": [{"name": level.name, "capacity": int(level.capacity_bytes)} for level in levels],
        "compute_ps": next((report.compute_ps.tolist() for report in reports.values()), []),
        "plans": {key: _picture(task, distinct[key], report) for key, report in reports.items()},
    }


def _picture(task: Task, plan: MemoryPlan, report: Report) -> dict[str, Any]:
    tensor, level, offset, start, end = plan.allocations.T
    arrived = arrivals(task, plan)
    joined = joined_blocks(task.program, tensor, offset, np.column_stack([level, start, end, arrived]))
    return {
        "blocks": _blocks(task.program, plan, joined, arrived),
        "copies": _copies(task.program, plan, joined),
        "op_ps": (report.op_time_ps + report.stall_ps).tolist(),
        "stall_ps": int(report.stall_ps.sum()),
        "tail_ps": int(report.tail_ps),
        "moved": report.bytes_moved.tolist(),
        "peak": report.peak_bytes.tolist(),
    }


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


def _copies(program: Program, plan: MemoryPlan, joined: JoinedBlocks) -> dict[str, list[int]]:
    """Return the copies; those of slices between the same blocks in one window are one."""
    homes: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for (tensor, level, _, start, end), block in zip(plan.allocations.tolist(), joined.part_of.tolist(), strict=True):
        homes.setdefault((tensor, level), []).append((start, end, block))

    def home(tensor: int, level: int, first: int, last: int) -> int:
        """Return the block in which a tensor is at a level during some of these ops, -1 if there is none."""
        blocks = homes.get((tensor, level), ())
        return next((block for start, end, block in blocks if start <= last and end >= first), -1)

    rows = []
    for tensor, source, target, *window in plan.transfers.tolist():
        ends = home(tensor, target, *window), home(tensor, source, *window)
        rows.append((int(program.whole_tensor[tensor]), source, target, *window, *ends))
    distinct = list(dict.fromkeys(rows)) if program.slices else rows
    names = (*TRANSFER, "into", "out_of")
    return {name: [row[column] for row in distinct] for column, name in enumerate(names)}
