"""What a plan's blocks hold, for those who draw or count them."""

from __future__ import annotations

from enum import Enum

import numpy as np

from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints, Program, TensorKind


class BlockKind(Enum):
    """Why a block is there; the value is how a legend calls it."""

    WEIGHT = "weight, resident"
    COPIED_WEIGHT = "weight, copied in"
    ACTIVATION = "activation"
    COPIED_ACTIVATION = "activation, copied back in"
    INPUT = "input, copied in"
    OUTPUT = "output, written back"


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
    """int64[A], for each block that a prefetch fills the last op of its window, -1 for the other blocks."""
    fills = plan.transfers[plan.transfers[:, 1] == task.backing]
    by_place: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for tensor, _, target, first, last in fills.tolist():
        by_place.setdefault((tensor, target), []).append((first, last))
    arrived = np.full(len(plan.allocations), -1, dtype=np.int64)
    for block, (tensor, level, _, start, end) in enumerate(plan.allocations.tolist()):
        windows = by_place.get((tensor, level), ())
        arrived[block] = min((last for first, last in windows if start <= first and last < end), default=-1)
    return arrived


def block_kinds(program: Program, tensor: Ints, arrived: Ints) -> list[BlockKind]:
    """The kind of each block: `tensor` is what it holds, `arrived` its entry in `arrivals`; int64[A] both."""
    kinds = [TensorKind(kind) for kind in program.tensor_kind[tensor]]
    return [_COPIED[kind] if last >= 0 else _MADE[kind] for kind, last in zip(kinds, arrived.tolist(), strict=True)]


def bytes_in_blocks(program: Program, plan: MemoryPlan, level: int) -> Ints:
    """int64[T + 1], bytes in a level's blocks during each op and at the end."""
    tensor, _, _, start, end = plan.allocations[plan.allocations[:, 1] == level].T
    change = np.zeros(program.num_ops + 2, dtype=np.int64)
    np.add.at(change, start, program.tensor_bytes[tensor])
    np.add.at(change, end + 1, -program.tensor_bytes[tensor])
    return change.cumsum()[:-1]
