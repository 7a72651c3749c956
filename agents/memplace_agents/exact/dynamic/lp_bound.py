"""A lower bound on the latency of all plans by linear programming, computed once for each task."""

from __future__ import annotations

from math import ceil

from memplace_agents.exact.dynamic.dynamic_model import build
from memplace_agents.exact.highs import OnBound, relax, uninterrupted
from memplace_env.placement.task import Task, derived


@derived
def _cache(task: Task) -> dict[str, int]:
    """Return the cache of a task, which holds its bound once that is computed."""
    return {}


def linear_bound_ps(task: Task, seconds: float | None = None, on_bound: OnBound | None = None) -> int:
    """Return the bound in ps of the linear program of `dynamic_model`; 0 if time ran out.

    Args:
        task: the problem.
        seconds: most seconds to spend; a cached bound takes none.
        on_bound: see `highs.solve`.

    Raises:
        KeyboardInterrupt: if the solver is interrupted.
    """
    cache = _cache(task)
    if "bound" not in cache:
        model = build(task)
        answer = uninterrupted(relax(model.program, seconds=seconds, on_bound=on_bound, interior=True))
        bound = ceil(answer.bound * model.unit_ps)
        if not bound:
            return 0
        cache["bound"] = bound
    return cache["bound"]
