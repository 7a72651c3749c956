"""The steps of a plan in order: blocks begin and end, tensors are copied, ops run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task


class CopyMoment(StrEnum):
    """Moment of a copy within its window; a valid plan is right at any."""

    EARLIEST = "earliest"
    LATEST = "latest"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Poison:
    """Invalidate the bytes of a block of the plan, given by its row."""

    row: int


@dataclass(frozen=True, slots=True)
class CopyTensor:
    """Make a transfer of the plan, given by its row."""

    row: int


@dataclass(frozen=True, slots=True)
class RunOp:
    """Run an op."""

    op: int


Step = Poison | CopyTensor | RunOp


def steps_of(task: Task, plan: MemoryPlan, copies: CopyMoment, rng: np.random.Generator) -> Iterator[Step]:
    """Yield the steps of one inference, the last op's copies included.

    Before an op the blocks that start there are poisoned, then tensors are copied; after it tensors are copied, then
    the blocks that end there are poisoned. So a read before a block was filled, or after it ended, reads poison. Blocks
    of resident weights are never poisoned, nor bytes that an operand leaves to a result in its place.

    Args:
        task: the plan's task.
        plan: valid or not.
        copies: moment of copies.
        rng: generator for `CopyMoment.RANDOM`.
    """
    resident = task.resident_blocks(plan)
    begins: defaultdict[int, list[int]] = defaultdict(list)
    ends: defaultdict[int, list[int]] = defaultdict(list)
    handed = plan.handed_over(task.program)
    given, taken = ({pair[side] for pair in handed} for side in (0, 1))
    for row, (_, _, _, start, end) in enumerate(plan.allocations.tolist()):
        if not resident[row]:
            begins[start] += [row] * (row not in taken)
            ends[end] += [row] * (row not in given)
    copied = defaultdict(list)  # rows by moment, see `_moment`
    for row, (_, _, _, start, end) in enumerate(plan.transfers.tolist()):
        copied[_moment(start, end, copies, rng)].append(row)
    for op in range(task.program.num_ops + 1):
        yield from map(Poison, begins[op])
        yield from map(CopyTensor, copied[2 * op])
        if op < task.program.num_ops:
            yield RunOp(op)
        yield from map(CopyTensor, copied[2 * op + 1])
        yield from map(Poison, ends[op])


def _moment(start: int, end: int, copies: CopyMoment, rng: np.random.Generator) -> int:
    """Return the moment of a copy: 2 op is before an op, 2 op + 1 after it."""
    first, last = 2 * start, 2 * end + 1
    if copies is CopyMoment.RANDOM:
        return int(rng.integers(first, last + 1))
    return first if copies is CopyMoment.EARLIEST else last
