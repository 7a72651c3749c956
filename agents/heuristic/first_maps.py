"""What is known of a task before anybody searches, as maps to start from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.compiler import HEURISTICS
from memplace_env.compiler.density import density_mappings
from memplace_env.envs.one_shot import OneShotProblem


def first_maps(problem: OneShotProblem) -> NDArray[np.int64]:
    """int64[M, 2T], each map once: density-greedy's, what every heuristic's plan amounts to, what native asks for."""
    task = problem.task
    granted = np.full((len(HEURISTICS), task.program.num_tensors), task.backing)
    for level, rule in zip(granted, HEURISTICS.values(), strict=True):
        level[task.program.use_tensor] = rule(task).use_level
    maps = problem.maps_of(np.concatenate([density_mappings(task), granted]))
    maps = np.concatenate([maps, problem.native_map[None]])
    _, first = np.unique(maps, axis=0, return_index=True)
    known: NDArray[np.int64] = maps[np.sort(first)]
    return known
