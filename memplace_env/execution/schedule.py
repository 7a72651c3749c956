"""What a plan does, in order: blocks begin and end, copies are made, ops run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import TensorKind


class Copies(StrEnum):
    """When in its window a copy is made: a plan must be right whenever that is."""

    EARLIEST = "earliest"
    LATEST = "latest"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Poison:
    """The bytes of a block of the plan, by its row, hold nothing any more, or nothing yet."""

    row: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A transfer of the plan, by its row, is made."""

    row: int


@dataclass(frozen=True, slots=True)
class Run:
    """An op runs."""

    op: int


Step = Poison | Copy | Run


def steps_of(task: Task, plan: MemoryPlan, copies: Copies, rng: np.random.Generator) -> Iterator[Step]:
    """One inference, the last op's copies included.

    Before an op the blocks that start there are emptied, then copies are made; behind it copies, then the blocks that
    end there are emptied. So a block is never read before it was filled, nor once it ended. Blocks in which a weight
    stays from inference to inference are left alone.

    Args:
        task: what the plan is for.
        plan: valid or not.
        copies: when copies are made.
        rng: for `Copies.RANDOM`.
    """
    stays = resident_rows(task, plan)
    begins, ends = defaultdict(list), defaultdict(list)
    for row, (_, _, _, start, end) in enumerate(plan.allocations.tolist()):
        if not stays[row]:
            begins[start].append(row)
            ends[end].append(row)
    made = defaultdict(list)
    for row, (_, _, _, start, end) in enumerate(plan.transfers.tolist()):
        made[_moment(start, end, copies, rng)].append(row)
    for op in range(task.program.num_ops + 1):
        yield from map(Poison, begins[op])
        yield from map(Copy, made[2 * op])
        if op < task.program.num_ops:
            yield Run(op)
        yield from map(Copy, made[2 * op + 1])
        yield from map(Poison, ends[op])


def resident_rows(task: Task, plan: MemoryPlan) -> NDArray[np.bool_]:
    """bool[A], blocks whose weight is loaded once, before the first inference."""
    tensor, _, _, start, end = plan.allocations.T
    weight = task.program.tensor_kind[tensor] == TensorKind.WEIGHT
    return np.asarray(weight & (start == 0) & (end >= task.program.num_ops - 1) & (not task.streams_weights))


def _moment(start: int, end: int, copies: Copies, rng: np.random.Generator) -> int:
    """Twice an op for the moment before it, and one more for that behind it."""
    first, last = 2 * start, 2 * end + 1
    if copies is Copies.RANDOM:
        return int(rng.integers(first, last + 1))
    return first if copies is Copies.EARLIEST else last
