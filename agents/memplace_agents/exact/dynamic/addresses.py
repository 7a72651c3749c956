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


class Crowd(NamedTuple):
    """Blocks of a level for which no addresses below a height were found; the least height that was is `peak`."""

    level: int
    blocks: Blocks
    height: int
    peak: int

    def stretches(self, seed: int, clock: Clock) -> Iterator[tuple[int, int]]:
        """Yield first and last op of stretches in which blocks that do not fit take each other's places."""
        for run in runs_without_addresses(self.blocks, self.height, seed, clock):
            # From the first end to the last start; before and after, none of these blocks makes way for another.
            ends = int(self.blocks.last[run].min()), int(self.blocks.first[run].max())
            yield min(ends), max(ends)


def with_addresses(task: Task, schedule: DynamicSchedule, seed: int, clock: Clock) -> MemoryPlan | list[Crowd]:
    """Return the plan of a schedule, with blocks below what any op reserves, or the blocks without."""
    offset, crowds = np.zeros(len(schedule.blocks), dtype=np.int64), list[Crowd]()
    tensor, level_of, first, last = schedule.blocks.T
    size = task.program.tensor_bytes[tensor]
    for level in range(task.backing):
        height = task.accelerator.levels[level].capacity_bytes - int(task.costs.reserved_bytes[:, level].max())
        always = (level_of == level) & (first == 0) & (last == task.program.num_ops - 1)
        offset[always] = height - np.cumsum(size[always])
        height -= int(size[always].sum())
        passing = np.flatnonzero((level_of == level) & ~always)
        blocks = Blocks(size[passing], first[passing], last[passing])
        for part in parts_of(blocks):
            together = blocks.take(part)
            packing = fit(together, height, seed, clock=clock)
            offset[passing[part]] = packing.offset
            if packing.outcome != FOUND:
                crowds.append(Crowd(level, together, height, packing.peak))
    if crowds:
        return crowds
    placed = np.column_stack([schedule.blocks[:, :2], offset, schedule.blocks[:, 2:]])
    return task.make_plan(schedule.use_level, placed, schedule.transfers)
