"""A lower bound on the latency of all plans by linear programming, computed once for each task."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.detail import Detail, farthest
from memplace_agents.exact.dynamic.dual_ascent import DualAscent
from memplace_agents.exact.dynamic.dynamic_model import build, without_early
from memplace_agents.exact.dynamic.weighed_rows import violated_rows
from memplace_agents.exact.highs import Floats, OnBound, relax, uninterrupted
from memplace_env.placement.task import Task, derived

ROUNDS = 4
"""Most times that the program is solved again with the rows that its answer violates. Our choice."""
ROUNDS_SHARE = 0.4
"""Most of what is left before the program is solved first for that and these. Our choice."""
PROGRESS = 1e-4
"""Relative gain of the bound below which no round follows. Our choice."""
WHOLE_COLUMNS = 100_000
"""Most columns of a program that is solved at once; longer ones are solved by windows. All registered games but Gemma
and three training steps have fewer. Our choice."""
PROMISE = 0.005
"""Relative gain of the bound by longer copies above which they are followed. Our choice."""
LONG_SHARE, LONG_S = 0.5, 1.3e-4
"""Fraction of what is left that may go into that, and seconds that it takes for each column; measured roughly."""


class LinearBound(NamedTuple):
    """Bound of the linear program of a task, as far as it has been computed.

    Attributes:
        bound_ps: lower bound of all latencies in ps; 0 if nothing is proven.
        rows: the rows with weights in the place of sizes with which it was proven.
        time_ps: float64[T+1], time of each op with the wait behind it, and of the tail, in its answer; [0] if unknown.
        complete: False if the time ran out before.
        long: True once longer copies were followed, or promised nothing.
    """

    bound_ps: int = 0
    rows: Detail = Detail()
    time_ps: Floats = np.zeros(1)
    complete: bool = False
    long: bool = False


@derived
def _cache(task: Task) -> dict[str, LinearBound]:
    """Return the cache of a task, which holds its bound once that is computed."""
    return {}


def linear_bound(task: Task, clock: Clock | None = None, on_bound: OnBound | None = None) -> LinearBound:
    """Return the bound of the linear program of `dynamic_model`, with the rows that its answers violate.

    Args:
        task: the problem.
        clock: ends it, and what adds rows after `ROUNDS_SHARE` of it; a cached bound takes no time.
        on_bound: see `highs.solve`.

    Raises:
        KeyboardInterrupt: if the solver is interrupted.
    """
    found = _cache(task).get("bound", LinearBound())
    if found.complete:
        return found
    rounds = None if clock is None else clock.part(np.inf, ROUNDS_SHARE)
    ascent = DualAscent()
    for _ in range(ROUNDS + 1):
        if clock is not None and clock.up:
            break
        model = build(task, found.rows)
        whole = len(model.program.cost) <= WHOLE_COLUMNS
        solve = partial(relax, model.program) if whole else partial(ascent.sweep, model)
        answer = uninterrupted(solve(clock=clock, on_bound=on_bound))
        before_ps, bound_ps = found.bound_ps, max(found.bound_ps, ceil(answer.bound * model.unit_ps))
        found = found._replace(bound_ps=bound_ps)
        if answer.values is None:  # the time is up
            break
        time_ps = answer.values[model.columns.time] * model.unit_ps
        violated = violated_rows(model, answer.values)
        gains = len(violated) and bound_ps > before_ps * (1 + PROGRESS)
        if bound_ps and (whole or ascent.settled) and not gains:
            found = LinearBound(bound_ps, found.rows, time_ps, complete=True)
            break
        found, clock = LinearBound(bound_ps, found.rows | violated, time_ps), rounds
    else:
        found = found._replace(complete=True)
    _cache(task)["bound"] = found
    return found


def long_bound(task: Task, clock: Clock, on_bound: OnBound | None = None) -> int:
    """Return the bound in ps of a program that follows copies as long as is affordable, after `linear_bound`.

    It is solved only where it promises a better bound: at most that of the program in which no copy begins before its
    window, which is as small as that of `linear_bound`.

    Args:
        task, clock, on_bound: as for `linear_bound`.

    Raises:
        KeyboardInterrupt: if the solver is interrupted.
    """
    found = _cache(task).get("bound", LinearBound())
    if not found.bound_ps or found.long:
        return found.bound_ps
    near, part = build(task, found.rows), clock.part(np.inf, LONG_SHARE)
    if len(near.program.cost) > WHOLE_COLUMNS:
        return found.bound_ps
    none_early = uninterrupted(relax(without_early(near, near.program), clock=part, on_bound=on_bound)).values
    if none_early is None:
        return found.bound_ps
    if near.program.cost @ none_early * near.unit_ps > found.bound_ps * (1 + PROMISE):
        far = build(task, found.rows | Detail(horizon=farthest(task)))
        if LONG_S * len(far.program.cost) > part.left:
            return found.bound_ps
        answer = uninterrupted(relax(far.program, clock=part, on_bound=on_bound, interior=True))
        found = found._replace(bound_ps=max(found.bound_ps, ceil(answer.bound * far.unit_ps)))
        if answer.values is None:  # the time is up
            return found.bound_ps
    _cache(task)["bound"] = found._replace(long=True)
    return found.bound_ps
