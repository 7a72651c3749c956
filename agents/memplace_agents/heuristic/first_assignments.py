"""Assignments that are known without a search, to start searches from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.compiler.density import all_density_levels
from memplace_env.placement.memory_plan import MemoryPlan


def first_assignments(problem: OneShotProblem, incumbent: MemoryPlan | None = None) -> NDArray[np.int64]:
    """Return the first assignments of a search, int64[M, 2T], each once.

    They are those of the best plan so far, if there is one; density-greedy's; those of every heuristic's plan; and the
    one that native requests.
    """
    task = problem.task
    best = [] if incumbent is None else [incumbent.tensor_levels(task.program)]
    compiled = [rule(task).tensor_levels(task.program) for rule in HEURISTICS.values()]
    assignments = problem.assignments_of(np.array([*best, *all_density_levels(task), *compiled]))
    assignments = np.concatenate([assignments, problem.native_assignment[None]])
    # The order decides ties in searches, so of equal rows the first is kept where it is.
    _, first = np.unique(assignments, axis=0, return_index=True)
    distinct: NDArray[np.int64] = assignments[np.sort(first)]
    return distinct
