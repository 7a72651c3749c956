"""Rows with weights in the place of sizes that a task may get, for tests that no plan violates one."""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.dynamic.detail import Detail
from memplace_agents.exact.dynamic.dual_feasible import candidates
from memplace_env.placement.task import Task

MOST = 100
"""Most rows of a task: each takes time to build."""


def rows_of(task: Task, seed: int = 0) -> Detail:
    """Return functions that the sizes of all tensors tell apart, drawn from those of all ops and levels."""
    rng, rows = np.random.default_rng(seed), list[tuple]()
    for level, memory in enumerate(task.accelerator.levels[:-1]):
        for op, reserved in enumerate([*task.costs.reserved_bytes[:, level].tolist(), 0]):
            room = memory.capacity_bytes - reserved
            size = np.unique(task.program.tensor_bytes)
            size = size[size <= room]
            if room and len(size):
                rows += [(level, op, function) for function in candidates(size, room)]
    drawn = rng.permutation(len(rows))[:MOST].tolist()
    return Detail(weighed=frozenset(rows[index] for index in drawn))
