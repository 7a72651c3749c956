"""A latency that no plan whatever can beat, by linear programming; computed once per task and kept on it."""

from __future__ import annotations

from math import ceil

import numpy as np

from agents.exact.dynamic.columns import uses_of
from agents.exact.dynamic.model import build
from agents.exact.highs import Watch, relax
from memplace_env.task import Task, derived

MOST_SHARES = 400_000
"""Columns of copies in one program: a gigabyte while it is solved."""
SHORTEST = 16
"""Ops before a use during which its copy is followed at the least."""


@derived
def horizon_of(task: Task) -> int | None:
    """Ops before a use during which its copy is followed op by op, so that the program stays within `MOST_SHARES`.

    None where there is no need for a limit.
    """
    program, uses = task.program, uses_of(task)
    reads = ~program.use_is_result
    ahead = (program.use_op - uses.valid[program.use_tensor])[reads]
    if ahead.sum() <= MOST_SHARES:
        return None
    horizons = np.arange(SHORTEST, ahead.max() + 1)
    shares = np.array([np.minimum(ahead, horizon).sum() for horizon in horizons])
    return int(max(horizons[shares <= MOST_SHARES], default=SHORTEST))


@derived
def _proven(task: Task) -> dict[str, int]:
    """What has been proven of this task so far."""
    return {}


def known_bound_ps(task: Task) -> int:
    """The best bound in ps that anybody has proven of any plan of this task; 0 before `linear_bound_ps`."""
    return _proven(task).get("bound", 0)


def keep_bound_ps(task: Task, bound_ps: float) -> None:
    """Remember a proven bound."""
    _proven(task)["bound"] = max(known_bound_ps(task), ceil(bound_ps))


def linear_bound_ps(task: Task, seconds: float | None = None, watch: Watch | None = None) -> int:
    """The bound in ps of the linear program of `model`, or the best one known if that is higher; 0 if time ran out.

    Args:
        task: the problem.
        seconds: time to spend at most; next to none where the bound is known already.
        watch: see `highs.solve`.
    """
    if "relaxed" not in _proven(task):
        model = build(task, horizon=horizon_of(task))
        answer = relax(model.program, seconds=seconds, watch=watch, interior=True)
        keep_bound_ps(task, answer.bound * model.unit_ps)
        if answer.bound:
            _proven(task)["relaxed"] = 1
        if answer.interrupted:
            raise KeyboardInterrupt
    return known_bound_ps(task)
