"""Kinds of a plan's blocks, for pictures and counts."""

from __future__ import annotations

from enum import Enum

import numpy as np

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.blocks import kinds_of
from memplace_env.program.program import Ints, Program, TensorKind


class BlockKind(Enum):
    """The content of a block; the value is its label in legends."""

    WEIGHT = "weight, resident"
    COPIED_WEIGHT = "weight, copied in"
    ACTIVATION = "activation"
    COPIED_ACTIVATION = "activation, copied back in"
    INPUT = "input, copied in"
    OUTPUT = "output, written back"
    FILLED = "input, filled by the caller"
    TAKEN = "output, taken by the caller"


_COPIED = {
    TensorKind.WEIGHT: BlockKind.COPIED_WEIGHT,
    TensorKind.INPUT: BlockKind.INPUT,
    TensorKind.ACTIVATION: BlockKind.COPIED_ACTIVATION,
    TensorKind.OUTPUT: BlockKind.COPIED_ACTIVATION,
}
_MADE = {
    TensorKind.WEIGHT: BlockKind.WEIGHT,
    TensorKind.INPUT: BlockKind.INPUT,
    TensorKind.ACTIVATION: BlockKind.ACTIVATION,
    TensorKind.OUTPUT: BlockKind.OUTPUT,
}


def arrivals(task: Task, plan: MemoryPlan) -> Ints:
    """Return int64[A], the last op of the prefetch's window for each block that one fills, -1 for other blocks."""
    fills = plan.copy_windows(task.backing)
    arrived = np.full(len(plan.allocations), -1, dtype=np.int64)
    for block, (tensor, level, _, start, end) in enumerate(plan.allocations.tolist()):
        windows = fills.get((tensor, level), ())
        arrived[block] = min((last for first, last in windows if start <= first and last < end), default=-1)
    return arrived


def block_kinds(program: Program, tensor: Ints, arrived: Ints) -> list[BlockKind]:
    """Return the kind of each block from its tensor and its entry in `arrivals`, both int64[A]."""
    ends = {BlockKind.INPUT: BlockKind.FILLED, BlockKind.OUTPUT: BlockKind.TAKEN}
    found = []
    for own, shown, last in zip(program.tensor_kind[tensor], kinds_of(program)[tensor], arrived.tolist(), strict=True):
        kind = (_COPIED if last >= 0 else _MADE)[TensorKind(own if last >= 0 else shown)]
        found.append(ends.get(kind, kind) if own != shown else kind)
    return found


def bytes_in_blocks(program: Program, plan: MemoryPlan, level: int) -> Ints:
    """Return int64[T + 1], bytes in a level's blocks during each op and at the end."""
    tensor, _, _, start, end = plan.allocations[plan.allocations[:, 1] == level].T
    change = np.zeros(program.num_ops + 2, dtype=np.int64)
    np.add.at(change, start, program.tensor_bytes[tensor])
    np.add.at(change, end + 1, -program.tensor_bytes[tensor])
    levels = int(plan.allocations[:, 1].max(initial=level)) + 1
    return np.asarray(change.cumsum()[:-1] - plan.shared_bytes(program, levels)[:, level])
