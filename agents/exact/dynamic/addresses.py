"""Addresses for the blocks of a schedule."""

from __future__ import annotations

import numpy as np

from agents.exact.dynamic.extract import Schedule
from agents.exact.kernels import FOUND
from agents.exact.packing import Blocks, fit, parts_of
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task


def with_addresses(task: Task, schedule: Schedule, seed: int) -> MemoryPlan | None:
    """The plan of a schedule, its blocks below what any op reserves; None if the packer finds no addresses."""
    offset = np.zeros(len(schedule.blocks), dtype=np.int64)
    tensor, level_of, first, last = schedule.blocks.T
    size = task.program.tensor_bytes[tensor]
    for level in range(task.backing):
        capacity = task.accelerator.levels[level].capacity_bytes
        reserved = np.append(task.costs.reserved_bytes[:, level], 0)
        always = (level_of == level) & (first == 0) & (last == task.program.num_ops - 1)
        height = capacity - int(reserved.max())
        offset[always] = height - np.cumsum(size[always])
        height -= int(size[always].sum())
        passing = np.flatnonzero((level_of == level) & ~always)
        blocks = Blocks(size[passing], first[passing], last[passing])
        for part in parts_of(blocks):
            found = fit(blocks.take(part), height, seed)
            if found.outcome != FOUND:
                return None
            offset[passing[part]] = found.offset
    blocks_with = np.column_stack([schedule.blocks[:, :2], offset, schedule.blocks[:, 2:]])
    return MemoryPlan.of(task, schedule.use_level, blocks_with, schedule.transfers)
