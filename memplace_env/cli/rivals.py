"""What a search is measured against: solvers that take no time, and the traffic bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memplace_env.cli.environments import baseline_of, formulation_of
from memplace_env.registration import Formulation
from memplace_env.views.text.headlines import stall_note
from memplace_env.views.text.quantities import ratio

if TYPE_CHECKING:
    from agents import Agent, Solution
    from agents.xla_msa import PublicSet
    from memplace_env.cli.environments import Env


def rivals_of(env: Env) -> dict[str, Solution]:
    """What solvers that take no time find, by name: greedy play and XLA's public option sets; there are such of games
    only."""
    if formulation_of(env) is not Formulation.GAME:
        return {}
    from agents import GreedyPlayer, XlaMsa
    from agents.xla_msa import PUBLIC_SETS

    solvers: dict[str, Agent[Any]] = {"greedy-player": GreedyPlayer()}
    solvers |= {_xla(each): XlaMsa(each.options) for each in PUBLIC_SETS}
    return {name: solver.solve(env) for name, solver in solvers.items()}


def rivals_lines(solution: Solution, rivals: Mapping[str, Solution]) -> Iterator[str]:
    """What is said of the rivals beside a solution, and what of XLA's public sets is left out."""
    if not rivals:
        return
    from agents.xla_msa import PUBLIC_SETS

    notes = {name: stall_note(each.report) if each.report else "" for name, each in rivals.items()}
    told = [f"{name} {ratio(each.speedup)}{notes[name]}" for name, each in rivals.items()]
    yield f"Others at once: {', '.join(told)}"
    best = max(map(_xla, PUBLIC_SETS), key=lambda name: rivals[name].speedup)
    yield f"{ratio(solution.speedup / rivals[best].speedup)} over the best of XLA's public option sets, {best}"
    for each in PUBLIC_SETS:
        yield f"Left out of {_xla(each)}: {', '.join(each.left_out)}"


def compared(env: Env, rivals: Mapping[str, Solution]) -> str:
    """The rivals' speed-ups and the traffic bound, as a progress bar shows them behind the best; empty without any."""
    if not rivals:
        return ""
    report = baseline_of(env).report
    speedups = {name: each.speedup for name, each in rivals.items()}
    speedups["traffic bound"] = report.latency_s / report.traffic_bound_s
    return f" ({', '.join(f'{name} {ratio(speedup)}' for name, speedup in speedups.items())})"


def _xla(options: PublicSet) -> str:
    return f"xla-msa {options.name}"
