"""Addresses for the blocks of a schedule that moves tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.address_kernels import FOUND
from memplace_agents.exact.address_search import Blocks, fit, parts_of, runs_without_addresses
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.extract import DynamicSchedule
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class Crowd(NamedTuple):
    """Blocks of a level for which no addresses were found, and the bytes that the furthest of them sticks out by."""

    level: int
    blocks: Blocks
    over: int

    def stretches(self, seed: int, clock: Clock) -> Iterator[tuple[int, int]]:
        """Yield first and last op of stretches in which blocks that do not fit take each other's places."""
        for run in runs_without_addresses(self.blocks, seed, clock):
            # From the first end to the last start; before and after, none of these blocks makes way for another.
            ends = int(self.blocks.last[run].min()), int(self.blocks.first[run].max())
            yield min(ends), max(ends)


def with_addresses(
    task: Task, schedule: DynamicSchedule, seed: int, clock: Clock, like: MemoryPlan | None = None
) -> MemoryPlan | list[Crowd]:
    """Return the plan of a schedule, or the blocks for which no addresses were found.

    Args:
        task, schedule: the plan without addresses.
        seed, clock: see `fit`.
        like: a plan most of whose blocks are the schedule's; addresses are like its where they can be.
    """
    offset, crowds = np.zeros(len(schedule.blocks), dtype=np.int64), list[Crowd]()
    near = None if like is None else _offsets_in(like, schedule.blocks)
    tensor, level_of, first, last = schedule.blocks.T
    size = task.program.tensor_bytes[tensor]
    for level in range(task.backing):
        always = (level_of == level) & (first == 0) & (last == task.program.num_ops - 1)
        offset[always] = np.cumsum(size[always]) - size[always]
        stack = int(size[always].sum())
        passing = np.flatnonzero((level_of == level) & ~always)
        blocks = Blocks.beside(size[passing], first[passing], last[passing], task.room_bytes(level) - stack)
        for part in parts_of(blocks):
            together = blocks.take(part)
            packing = fit(together, seed, clock=clock, near=None if near is None else near[passing[part]])
            offset[passing[part]] = stack + packing.offset
            if packing.outcome != FOUND:
                crowds.append(Crowd(level, together, packing.over))
    if crowds:
        return crowds
    placed = np.column_stack([schedule.blocks[:, :2], offset, schedule.blocks[:, 2:]])
    return task.make_plan(schedule.use_level, placed, schedule.transfers)


def _offsets_in(plan: MemoryPlan, blocks: Ints) -> Ints:
    """Return the offsets that a plan has for blocks, int64[n, 4] as in `DynamicSchedule`, of the same tensor and level.

    Of several that of the last one that is alive at the same time; -1 for none.
    """
    offsets = dict[tuple[int, int], list[tuple[int, int, int]]]()
    for tensor, level, offset, start, end in plan.allocations.tolist():
        offsets.setdefault((tensor, level), []).append((offset, start, end))
    found = np.full(len(blocks), -1)
    for row, (tensor, level, first, last) in enumerate(blocks.tolist()):
        for offset, start, end in offsets.get((tensor, level), []):
            if start <= last and end >= first:
                found[row] = offset
    return found
