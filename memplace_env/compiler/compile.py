"""From a mapping to a MemoryPlan with addresses, transfers and a count of what had to be moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env.compiler.evaluate import kernel_of
from memplace_env.compiler.schedule import Order, schedule_of
from memplace_env.errors import ActionError
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints, TensorKind


class Compiled(NamedTuple):
    """A plan and the bytes of the tensors that did not get the level they asked for."""

    plan: MemoryPlan
    reassigned_bytes: int


def place_mapping(task: Task, mapping: ArrayLike, order: Order = "weights-before-results") -> Compiled:
    """Make a mapping real, see `memplace_env.compile_mapping`.

    Raises:
        ActionError: if the mapping has another shape or another range.
    """
    program, wanted = task.program, np.asarray(mapping)
    if wanted.shape != (program.num_tensors,) or not np.issubdtype(wanted.dtype, np.integer):
        raise ActionError(
            f"A mapping for {program.name!r} is {program.num_tensors} integers, one level for each tensor; this one "
            f"has shape {wanted.shape} and dtype {wanted.dtype}."
        )
    if wanted.size and (wanted.min() < 0 or wanted.max() > task.backing):
        raise ActionError(f"A mapping holds levels 0..{task.backing}; this one has {wanted.min()}..{wanted.max()}.")
    return place_choice(task, wanted.astype(np.int64), np.arange(program.num_tensors), order)


def place_choice(task: Task, choice: Ints, slot: Ints, order: Order) -> Compiled:
    """As `place_mapping`, where tensor k wants `choice[slot[k]]` (the backing memory if `slot[k] < 0`)."""
    schedule = schedule_of(task, order)
    out, levels = np.empty((3, 1), dtype=np.int64), np.empty((1, task.program.num_tensors), dtype=np.int8)
    offset, start = kernel_of(schedule)(schedule, choice[None], slot, out, levels, 0, 1)
    return Compiled(plan_of_levels(task, levels[0], offset, start), int(out[2, 0]))


def plan_of_levels(task: Task, level: NDArray[np.integer], offset: Ints, copy_start: Ints | None = None) -> MemoryPlan:
    """The plan in which each tensor lives in one level, at one offset, from when it must to when it may leave.

    `copy_start` int64[K] is, for streamed weights in fast memory, the op at which their transfer starts.
    """
    program = task.program
    blocks = np.flatnonzero(program.is_placeable & (level < task.backing))
    weight = program.tensor_kind[blocks] == TensorKind.WEIGHT
    first, last = program.live_start[blocks], program.live_end[blocks]
    transfers = None
    if not task.streams_weights or copy_start is None:
        first = np.where(weight, 0, first)
        last = np.where(weight, program.num_ops - 1, last)
    else:
        copied = blocks[weight]
        ends = program.live_start[copied] - 1
        sources = np.full(len(copied), task.backing)
        transfers = np.stack([copied, sources, level[copied], copy_start[copied], ends], axis=1)
        first = np.where(weight, copy_start[blocks], first)
    allocations = np.stack([blocks, level[blocks], offset[blocks], first, last], axis=1)
    return MemoryPlan.of(task, level[program.use_tensor], allocations, transfers)
