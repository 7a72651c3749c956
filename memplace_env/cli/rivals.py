"""What a search is measured against while it runs: solvers that take no time, and a bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memplace_env.cli.environments import baseline_of, formulation_of
from memplace_env.registration import Formulation
from memplace_env.views.text.quantities import ratio

if TYPE_CHECKING:
    from agents import Agent, Solution
    from memplace_env.cli.environments import Env


def rivals_of(env: Env) -> dict[str, Solution]:
    """What solvers that take no time find, by name; there are such of games only."""
    if formulation_of(env) is not Formulation.GAME:
        return {}
    from agents import GreedyPlayer, XlaMsa
    from agents.xla_msa import MsaOptions

    solvers: dict[str, Agent[Any]] = {
        "greedy-player": GreedyPlayer(),
        "xla-msa": XlaMsa(),
        "xla-msa tuned": XlaMsa(MsaOptions.tuned()),
    }
    return {name: solver.solve(env) for name, solver in solvers.items()}


def compared(env: Env, rivals: Mapping[str, Solution]) -> str:
    """The rivals' speed-ups and the bound, as a progress bar shows them behind the best; empty without rivals."""
    if not rivals:
        return ""
    report = baseline_of(env).report
    speedups = {name: each.speedup for name, each in rivals.items()}
    speedups["bound"] = report.latency_s / report.lower_bound_s
    return f" ({', '.join(f'{name} {ratio(speedup)}' for name, speedup in speedups.items())})"
