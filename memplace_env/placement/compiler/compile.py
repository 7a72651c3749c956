"""From levels to a plan with addresses, transfers and bytes moved, or to the costs of many assignments at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import ActionError
from memplace_env._lib.foreign import described
from memplace_env._lib.threads import in_chunks
from memplace_env.placement.compiler import resident, streamed
from memplace_env.placement.compiler.placing_order import ORDERS, Order, Schedule, schedule_of
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, TensorKind


class Evaluation(NamedTuple):
    """Costs of B assignments once the compiler has made plans of them.

    Attributes:
        latency_ps: int64[B].
        dynamic_pj: int64[B], energy without static power.
        reassigned_bytes: int64[B], bytes that did not get the level they asked for.
        level: int8[B, K], the level that each tensor got.
    """

    latency_ps: Ints
    dynamic_pj: Ints
    reassigned_bytes: Ints
    level: NDArray[np.int8]


def evaluate_assignments(
    schedule: Schedule, assignments: NDArray[np.integer], decision_of: Ints, threads: int | None = None
) -> Evaluation:
    """Return the costs of `assignments` int[B, M]; tensor k requests the level `assignments[b, decision_of[k]]`.

    They are independent, so the result does not depend on `threads` (default: all cores).
    """
    count = len(assignments)
    out, levels = np.empty((3, count), dtype=np.int64), np.empty((count, len(decision_of)), dtype=np.int8)
    assignments = np.require(assignments, np.int64, ["C", "W"])  # any other array would compile the kernel again
    place_all = kernel_of(schedule)

    def place_range(first: int, last: int) -> None:
        place_all(schedule, assignments, decision_of, out, levels, first, last)

    in_chunks(place_range, count, threads)
    return Evaluation(out[0], out[1], out[2], levels)


def kernel_of(schedule: Schedule) -> Callable[..., tuple[Ints, Ints]]:
    """Return the compiled `place_all` for the schedule's machine."""
    place_all: Callable[..., tuple[Ints, Ints]] = streamed.place_all if schedule.streamed else resident.place_all
    return place_all


class Compiled(NamedTuple):
    """A plan and the bytes of the tensors that did not get the level they asked for."""

    plan: MemoryPlan
    reassigned_bytes: int


def place_levels(
    task: Task, levels: ArrayLike, order: Order = "weights-before-results", in_place: bool = True
) -> Compiled:
    """Return the plan that puts tensors into the requested levels where they fit, see `memplace_env.compile_levels`.

    Results take the place of operands as the program says, but not unless `in_place`.

    Raises:
        ActionError: if the levels have another shape or another range, or there is no such order.
    """
    if not isinstance(order, str) or order not in ORDERS:
        raise ActionError(f"The order is one of {', '.join(ORDERS)}, not {described(order)}.")
    program, array = task.program, np.asarray(levels)
    if array.shape != (program.num_tensors,) or not np.issubdtype(array.dtype, np.integer):
        raise ActionError(
            f"Levels for {program.name!r} are {program.num_tensors} integers, one level for each tensor; these "
            f"have shape {array.shape} and dtype {array.dtype}."
        )
    if array.size and (array.min() < 0 or array.max() > task.backing):
        raise ActionError(f"Levels are 0..{task.backing}; these hold {array.min()}..{array.max()}.")
    return place_assignment(task, array.astype(np.int64), np.arange(program.num_tensors), order, in_place)


def place_assignment(task: Task, assignment: Ints, decision_of: Ints, order: Order, in_place: bool = True) -> Compiled:
    """Place tensor k at level `assignment[decision_of[k]]`, in the backing memory if the index is below 0."""
    schedule = schedule_of(task, order, in_place)
    out, levels = np.empty((3, 1), dtype=np.int64), np.empty((1, task.program.num_tensors), dtype=np.int8)
    offset, start = kernel_of(schedule)(schedule, assignment[None], decision_of, out, levels, 0, 1)
    return Compiled(plan_of_levels(task, levels[0], offset, start), int(out[2, 0]))


def plan_of_levels(task: Task, level: NDArray[np.integer], offset: Ints, copy_start: Ints | None = None) -> MemoryPlan:
    """Return the plan in which each tensor lives in one level, at one offset, from its first op to its last.

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
    return task.make_plan(level[program.use_tensor], allocations, transfers)
