"""What is known of a task before anybody searches, as maps to start from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.compiler import HEURISTICS
from memplace_env.compiler.density import density_mappings
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints


def first_maps(problem: OneShotProblem, incumbent: MemoryPlan | None = None) -> NDArray[np.int64]:
    """int64[M, 2T], each map once.

    What the best plan so far amounts to, if there is one; density-greedy's maps; what every heuristic's plan amounts
    to; what native asks for.
    """
    task = problem.task
    begun = [] if incumbent is None else [_levels(task, incumbent)]
    granted = [_levels(task, rule(task)) for rule in HEURISTICS.values()]
    maps = problem.maps_of(np.array([*begun, *density_mappings(task), *granted]))
    maps = np.concatenate([maps, problem.native_map[None]])
    _, first = np.unique(maps, axis=0, return_index=True)
    known: NDArray[np.int64] = maps[np.sort(first)]
    return known


def _levels(task: Task, plan: MemoryPlan) -> Ints:
    """int64[K], the level that serves each tensor, the last use's if there are several; backing for unused ones."""
    level = np.full(task.program.num_tensors, task.backing)
    level[task.program.use_tensor] = plan.use_level
    return level
