"""From a mapping to a MemoryPlan with addresses, transfers and a count of what had to be moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.compiler.evaluate import kernel_of
from memplace_env.compiler.schedule import Order, is_placeable, schedule
from memplace_env.errors import ActionError
from memplace_env.plan import MemoryPlan
from memplace_env.workload.program import Ints, Program, TensorKind


class Compiled(NamedTuple):
    """A plan and the bytes of the tensors that did not get the level they asked for."""

    plan: MemoryPlan
    reassigned_bytes: int


def compile_mapping(
    program: Program,
    accelerator: Accelerator,
    mapping: ArrayLike,
    order: Order = "weights-before-results",
) -> Compiled:
    """Make a mapping real: the rectifier that EGRL's compiler is (its own rules are not published).

    Visits the ops in execution order. Each weight, at the first op that reads it, and each result of an op gets a
    contiguous block in the level it asks for; what does not fit goes to the next level down. Graph inputs and
    outputs live in the backing memory whatever the mapping says.

    On machines with resident weights a weight's block lasts the whole inference, see `compiler.resident`; with
    streamed weights it is filled by a transfer that no op waits for, see `compiler.streamed`.

    Args:
        program: what to place.
        accelerator: where.
        mapping: int[K], the level wanted for each tensor, 0..L-1.
        order: who chooses first, see `schedule`.

    Raises:
        ActionError: if the mapping has another shape or another range.
    """
    wanted = np.asarray(mapping)
    if wanted.shape != (program.num_tensors,) or not np.issubdtype(wanted.dtype, np.integer):
        raise ActionError(
            f"A mapping for {program.name!r} is {program.num_tensors} integers, one level for each tensor; this one "
            f"has shape {wanted.shape} and dtype {wanted.dtype}."
        )
    if wanted.size and (wanted.min() < 0 or wanted.max() > accelerator.backing):
        raise ActionError(
            f"A mapping holds levels 0..{accelerator.backing}; this one has {wanted.min()}..{wanted.max()}."
        )
    return compile_choice(program, accelerator, wanted.astype(np.int64), np.arange(program.num_tensors), order)


def compile_choice(program: Program, accelerator: Accelerator, choice: Ints, slot: Ints, order: Order) -> Compiled:
    """As `compile_mapping`, where tensor k wants `choice[slot[k]]` (the backing memory if `slot[k] < 0`)."""
    s = schedule(program, accelerator, order)
    out, level = np.empty((3, 1), dtype=np.int64), np.empty((1, program.num_tensors), dtype=np.int8)
    offset, start = kernel_of(s)(s, choice[None], slot, out, level, 0, 1)
    return Compiled(plan_of_levels(program, accelerator, level[0], offset, start), int(out[2, 0]))


def plan_of_levels(
    program: Program,
    accelerator: Accelerator,
    level: NDArray[np.integer],
    offset: Ints,
    copy_start: Ints | None = None,
) -> MemoryPlan:
    """The plan in which each tensor lives in one level, at one offset, from when it must to when it may leave.

    `copy_start` int64[K] is, for streamed weights in fast memory, the op at which their transfer starts.
    """
    blocks = np.flatnonzero(is_placeable(program) & (level < accelerator.backing))
    weight = program.tensor_kind[blocks] == TensorKind.WEIGHT
    first, last = program.live_start[blocks], program.live_end[blocks]
    transfers = None
    if accelerator.weights == "resident" or copy_start is None:
        first = np.where(weight, 0, first)
        last = np.where(weight, program.num_ops - 1, last)
    else:
        copied = blocks[weight]
        ends = program.live_start[copied] - 1
        sources = np.full(len(copied), accelerator.backing)
        transfers = np.stack([copied, sources, level[copied], copy_start[copied], ends], axis=1)
        first = np.where(weight, copy_start[blocks], first)
    allocations = np.stack([blocks, level[blocks], offset[blocks], first, last], axis=1)
    return MemoryPlan.of(program, accelerator, level[program.use_tensor], allocations, transfers)
