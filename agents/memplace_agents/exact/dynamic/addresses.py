"""Addresses for the blocks of a schedule that moves tensors."""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.address_kernels import FOUND
from memplace_agents.exact.address_search import Blocks, fit, parts_of
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.extract import DynamicSchedule
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task


def with_addresses(task: Task, schedule: DynamicSchedule, seed: int, clock: Clock) -> MemoryPlan | None:
    """Return the plan of a schedule, or None if no addresses were found for its blocks.

    Args:
        task, schedule: the plan without addresses.
        seed, clock: see `fit`.
    """
    offset = np.zeros(len(schedule.blocks), dtype=np.int64)
    tensor, level_of, first, last = schedule.blocks.T
    size = task.program.tensor_bytes[tensor]
    for level in range(task.backing):
        always = (level_of == level) & (first == 0) & (last == task.program.num_ops - 1)
        offset[always] = np.cumsum(size[always]) - size[always]
        stack = int(size[always].sum())
        passing = np.flatnonzero((level_of == level) & ~always)
        blocks = Blocks.beside(size[passing], first[passing], last[passing], task.room_bytes(level) - stack)
        for part in parts_of(blocks):
            packing = fit(blocks.take(part), seed, clock=clock)
            if packing.outcome != FOUND:
                return None
            offset[passing[part]] = stack + packing.offset
    placed = np.column_stack([schedule.blocks[:, :2], offset, schedule.blocks[:, 2:]])
    return task.make_plan(schedule.use_level, placed, schedule.transfers)
