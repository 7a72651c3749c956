"""A bound for agents that prove none: the exact agent, run for some seconds after a one-shot search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from memplace_env.cli.console import note
from memplace_env.cli.search import Limits, search
from memplace_env.errors import AgentError

if TYPE_CHECKING:
    from agents import Solution
    from memplace_env.cli.environments import Env

_BUDGET = 1000
"""Plans that the exact agent may try; where it proves the optimum it needs a handful, else the time ends it first."""


def prove_bound(env: Env, seconds: float, seed: int, kept: str) -> Solution | None:
    """What the exact agent finds and proves in that time; None where it cannot."""
    from agents import Exact

    try:
        return search(Exact(), env, Limits(_BUDGET, seed, seconds), kept=kept)
    except AgentError as error:
        note(f"No bound is proven: {error}")
        return None


def with_bound(solution: Solution, exact: Solution | None) -> Solution:
    """The solution with a proven bound, and optimal if it is as good as the exact agent calls optimal."""
    if exact is None or exact.bound_s is None or solution.report is None:
        return solution
    from agents import Exact

    optimal = solution.report.latency_s <= exact.bound_s * (1 + Exact().mip_gap)
    return replace(solution, bound_s=exact.bound_s, outcome="optimal" if optimal else solution.outcome)


def if_exact_is_faster(solution: Solution, exact: Solution | None) -> str | None:
    """A sentence about the exact agent's own plan, if that is the faster one."""
    if exact is None or exact.report is None or solution.report is None:
        return None
    if exact.report.latency_ps >= solution.report.latency_ps:
        return None
    from memplace_env.views.text.quantities import ratio

    known = "proven optimal" if exact.outcome == "optimal" else "not proven optimal"
    return (
        f"The exact agent found a faster plan while it proved the bound: {ratio(exact.speedup)} over native, {known}; "
        "--agent exact writes it."
    )
