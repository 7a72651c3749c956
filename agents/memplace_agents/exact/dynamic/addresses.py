"""Addresses for the blocks of a schedule that moves tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_agents.exact.address_kernels import FOUND
from memplace_agents.exact.address_search import Blocks, fit, parts_of
from memplace_agents.exact.dynamic.extract import DynamicSchedule
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task


class Crowd(NamedTuple):
    """A level, and the first and last op of a stretch in which no addresses were found."""

    level: int
    first: int
    last: int


def with_addresses(task: Task, schedule: DynamicSchedule, seed: int) -> MemoryPlan | list[Crowd]:
    """Return the plan of a schedule, with blocks below what any op reserves, or the stretches without addresses."""
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
            packing = fit(blocks.take(part), height, seed)
            offset[passing[part]] = packing.offset
            if packing.outcome != FOUND:
                crowds.append(Crowd(level, int(blocks.first[part].min()), int(blocks.last[part].max())))
    if crowds:
        return crowds
    placed = np.column_stack([schedule.blocks[:, :2], offset, schedule.blocks[:, 2:]])
    return task.make_plan(schedule.use_level, placed, schedule.transfers)
