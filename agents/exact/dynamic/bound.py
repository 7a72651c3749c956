"""A latency that no plan whatever can beat, by linear programming; computed once per task and kept on it."""

from __future__ import annotations

from math import ceil

from agents.exact.dynamic.model import build
from agents.exact.highs import Watch, heard, relax
from memplace_env.task import Task, derived


@derived
def _kept(task: Task) -> dict[str, int]:
    """The bound of this task, once it is known."""
    return {}


def linear_bound_ps(task: Task, seconds: float | None = None, watch: Watch | None = None) -> int:
    """The bound in ps of the linear program of `model`; 0 if time ran out.

    Args:
        task: the problem.
        seconds: time to spend at most; next to none where the bound is known already.
        watch: see `highs.solve`.

    Raises:
        KeyboardInterrupt: if somebody interrupts it.
    """
    kept = _kept(task)
    if "bound" not in kept:
        model = build(task)
        bound = ceil(heard(relax(model.program, seconds=seconds, watch=watch, interior=True)).bound * model.unit_ps)
        if not bound:
            return 0
        kept["bound"] = bound
    return kept["bound"]
