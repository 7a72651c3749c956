"""Places in the backing memory: plans leave them open, and a plan can run only if there are some."""

from __future__ import annotations

from typing import Final

import numpy as np

from memplace_env._lib.units import round_up
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, TensorKind

ALIGNMENT: Final = 64
"""Bytes; places begin at multiples of it where the memory has room for that, always at those of its own alignment."""


def fits_backing(task: Task, plan: MemoryPlan) -> bool:
    """Return whether `backing_offsets` finds places for a plan that breaks no other rule."""
    # Each place is the lowest gap, so none ends beyond the sum of all sizes: what fits side by side fits packed.
    side_by_side = round_up(task.program.tensor_bytes, alignments(task)[0]).sum()
    return bool(side_by_side <= _capacity(task)) or backing_offsets(task, plan) is not None


def alignments(task: Task) -> tuple[int, ...]:
    """Return the bytes that all places are multiples of, powers of two: the first that needs no more than there is."""
    own = task.accelerator.levels[-1].alignment_bytes
    return (own,) if own >= ALIGNMENT else (ALIGNMENT, own)


def backing_offsets(task: Task, plan: MemoryPlan) -> Ints | None:
    """Return int64[K], the place of each tensor in the backing memory, -1 for those that are never there.

    Inputs, and weights that are ever there, lie side by side from the start. Results lie behind them, and share bytes
    where the plan needs them there at different ops. An output lies where the tensor lies whose place it takes.

    Args:
        task: the plan's task.
        plan: one that breaks no other rule.

    Returns:
        multiples of one of `alignments`; None if the memory has too few bytes for that.
    """
    # At the head of the file this would go in a circle: the package of the packing needs the validator.
    from memplace_env.placement.compiler.block_neighbours import neighbours_of
    from memplace_env.placement.compiler.packing import pack_level, packing_space

    program = task.program
    first, last = backing_lives(task, plan)
    there = first <= last
    owner = np.where(there & (program.alias_of >= 0), program.alias_of, np.arange(program.num_tensors))
    np.minimum.at(first, owner[there], first[there])
    np.maximum.at(last, owner[there], last[there])
    placed = np.unique(owner[there])
    offsets = np.full(program.num_tensors, -1, dtype=np.int64)
    for alignment in alignments(task):
        size = round_up(program.tensor_bytes, alignment)
        stays = (first[placed] == 0) & (last[placed] == program.num_ops)
        fixed, others = placed[stays], placed[~stays]
        offsets[fixed] = np.cumsum(size[fixed]) - size[fixed]
        # By rank, as the packing takes them.
        others = others[np.lexsort((others, first[others], -size[others]))]
        blocks = size[others], first[others], last[others], others[:0]
        near = neighbours_of(first[others], last[others], np.ones(len(others), dtype=np.bool_))
        low, end = np.zeros(len(others), dtype=np.int64), np.empty(len(others), dtype=np.int64)
        members, base = np.arange(len(others), dtype=np.uint32), size[fixed].sum()
        ceiling = _capacity(task) - base + size[others] - program.tensor_bytes[others]  # none for rounding at the end
        lost = pack_level(blocks, near, members, ceiling, low, end, packing_space(len(others)))
        offsets[others] = base + low
        if lost == 0 and (offsets[placed] + program.tensor_bytes[placed]).max(initial=0) <= _capacity(task):
            offsets[there] = offsets[owner[there]]
            return offsets
    return None


def backing_lives(task: Task, plan: MemoryPlan) -> tuple[Ints, Ints]:
    """Return the first and the last op, int64[K] each, at which the backing memory holds a tensor for the plan.

    The first lies behind the last where it never does. Weights and inputs stay for the next inference.
    """
    program = task.program
    first, last = np.full(program.num_tensors, program.num_ops + 1), np.full(program.num_tensors, -1)
    behind = plan.use_level == task.backing
    copies = plan.transfers[(plan.transfers[:, 1:3] == task.backing).any(axis=1)]
    for tensor, since, until in (
        (program.use_tensor[behind], program.use_op[behind], program.use_op[behind]),
        (copies[:, 0], copies[:, 3], copies[:, 4]),
    ):
        np.minimum.at(first, tensor, since)
        np.maximum.at(last, tensor, until)
    last[program.tensor_kind == TensorKind.OUTPUT] = program.num_ops
    constant = (program.tensor_kind == TensorKind.WEIGHT) & ((first <= last) | task.streams_weights)
    constant |= program.tensor_kind == TensorKind.INPUT
    first[constant], last[constant] = 0, program.num_ops
    return first, last


def _capacity(task: Task) -> int:
    return task.accelerator.levels[-1].capacity_bytes
