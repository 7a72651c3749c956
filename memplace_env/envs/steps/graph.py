"""Nodes of graph observations in steps: columns about the decision and about those before it."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.one_shot.graph import shares_by_op
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_kernels import CURSOR, HEAD
from memplace_env.envs.steps.step_tables import FAST, MIDDLE
from memplace_env.program.program import Ints

STATE_COLUMNS: Final = (
    "weights_asked", "results_asked", "weights_open", "results_open", "weights_fast", "results_fast",
    "weights_middle", "results_middle", "free_fast", "free_middle",
)  # fmt: skip
"""Columns behind `TASK_COLUMNS`; each pair but the last says which part of the bytes of the weights that the op is the
first to read, and of the results that it makes, is so.

| columns    | meaning                                                                     |
|------------|-----------------------------------------------------------------------------|
| 23, 24 `asked`  | decided next; 0 everywhere at the end                                  |
| 25, 26 `open`   | decided later                                                          |
| 27, 28 `fast`   | decided to be in the fast level                                        |
| 29, 30 `middle` | decided to be in the middle level; the rest stays in the backing memory|
| 31, 32 `free`   | free bytes of the fast and of the middle level in the op over capacity |
"""


def state_columns(problem: StepsProblem, state: Ints) -> NDArray[np.float64]:
    """Return float64[T, 10], the columns `STATE_COLUMNS` of a state int64[size]."""
    entry, cursor = problem.entry_of, state[CURSOR]
    level = np.where((entry >= 0) & (entry < cursor), state[HEAD:][entry], -1)
    chosen = entry == cursor, entry > cursor, level == FAST, level == MIDDLE
    capacity = np.maximum(problem.tables.capacity, 1)
    free = np.stack([_free_bytes(problem, state, each) for each in (FAST, MIDDLE)], axis=1) / capacity
    return np.concatenate([*(shares_by_op(problem.task, those) for those in chosen), free], axis=1)


def _free_bytes(problem: StepsProblem, state: Ints, level: int) -> Ints:
    """Return int64[T], the bytes of a fast level that are free in each op, from its tree, see `free_bytes`."""
    trees = state[HEAD + problem.num_decisions :].reshape(4, -1)
    least, taken = trees[2 * level : 2 * level + 2]
    node = len(least) // 2 + 1 + np.arange(problem.task.program.num_ops)
    free: Ints = least[node]
    while node[0] > 1:
        node >>= 1
        free -= taken[node]
    return free
