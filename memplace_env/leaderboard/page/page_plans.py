"""Plans for the page: blocks and copies in columns, each distinct plan once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from memplace_env.placement.memory_plan import ALLOCATION, TRANSFER, MemoryPlan
from memplace_env.placement.simulator import Report, time_plan
from memplace_env.placement.task import Task
from memplace_env.report.plans.block_kinds import BlockKind, arrivals, block_kinds
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
        ops and types: T each; tensors and bytes: K each; levels: name and capacity, fastest first, backing last;
        compute_ps: T; plans: by `plan_key`, each with blocks and copies as columns, op_ps (T, the stall before each
        op included), tail_ps, stall_ps, moved and peak (L each, bytes).
    """
    program, levels = task.program, task.accelerator.levels
    distinct = {plan_key(plan): plan for plan in plans}
    reports = {key: time_plan(task, distinct[key]) for key in sorted(distinct)}
    return {
        "ops": list(program.op_name),
        "types": list(program.op_type),
        "tensors": list(program.tensor_name),
        "bytes": program.tensor_bytes.tolist(),
        "levels": [{"name": level.name, "capacity": int(level.capacity_bytes)} for level in levels],
        "compute_ps": next((report.compute_ps.tolist() for report in reports.values()), []),
        "plans": {key: _picture(task, distinct[key], report) for key, report in reports.items()},
    }


def _picture(task: Task, plan: MemoryPlan, report: Report) -> dict[str, Any]:
    kinds = block_kinds(task.program, plan.allocations[:, 0], arrivals(task, plan))
    blocks = {name: plan.allocations[:, column].tolist() for column, name in enumerate(ALLOCATION)}
    return {
        "blocks": {**blocks, "kind": [_KIND[kind] for kind in kinds]},
        "copies": {name: plan.transfers[:, column].tolist() for column, name in enumerate(TRANSFER)},
        "op_ps": (report.op_time_ps + report.stall_ps).tolist(),
        "stall_ps": int(report.stall_ps.sum()),
        "tail_ps": int(report.tail_ps),
        "moved": report.bytes_moved.tolist(),
        "peak": report.peak_bytes.tolist(),
    }
