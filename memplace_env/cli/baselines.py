"""Baselines of a search: solvers that take no time, and the traffic bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from memplace_env.cli.environments import baseline_of
from memplace_env.envs.registration import Formulation
from memplace_env.report.plans.headlines import stall_note
from memplace_env.report.quantities import ratio

if TYPE_CHECKING:
    from memplace_agents import Agent, Solution
    from memplace_agents.xla_msa import PublicSet
    from memplace_env.cli.environments import Env


def baselines_of(env: Env) -> dict[str, Solution]:
    """Return the solutions of greedy play and of XLA's public option sets, by name; empty for all but games."""
    if env.formulation is not Formulation.GAME:
        return {}
    from memplace_agents import GreedyPlayer, XlaMsa
    from memplace_agents.xla_msa import PUBLIC_SETS

    solvers: dict[str, Agent[Any]] = {"greedy-player": GreedyPlayer()}
    solvers |= {_set_name(public): XlaMsa(public.options) for public in PUBLIC_SETS}
    return {name: solver.solve(env) for name, solver in solvers.items()}


def baseline_lines(solution: Solution, baselines: Mapping[str, Solution]) -> Iterator[str]:
    """Yield lines that compare a solution with the baselines, and list the options that XLA's public sets leave out."""
    if not baselines:
        return
    from memplace_agents.xla_msa import PUBLIC_SETS

    notes = {name: stall_note(other.report) if other.report else "" for name, other in baselines.items()}
    speedups = [f"{name} {ratio(other.speedup)}{notes[name]}" for name, other in baselines.items()]
    yield f"Baselines: {', '.join(speedups)}"
    best = max(map(_set_name, PUBLIC_SETS), key=lambda name: baselines[name].speedup)
    yield f"{ratio(solution.speedup / baselines[best].speedup)} over the best of XLA's public option sets, {best}"
    for public in PUBLIC_SETS:
        yield f"Left out of {_set_name(public)}: {', '.join(public.left_out)}"


def agent_of(name: str, formulation: Formulation) -> str | None:
    """Return the agent that, at its defaults, writes the plan of a baseline or a proof; None if there is none."""
    from memplace_agents import XlaMsa
    from memplace_agents.registry import agent_specs
    from memplace_agents.xla_msa import PUBLIC_SETS

    if name in {_set_name(public) for public in PUBLIC_SETS if public.options == XlaMsa().options}:
        name = "xla-msa"
    return name if name in agent_specs(formulation) else None


def progress_note(env: Env, baselines: Mapping[str, Solution]) -> str:
    """Return the speed-ups of the baselines and of the traffic bound for a progress bar; empty without baselines."""
    if not baselines:
        return ""
    report = baseline_of(env).report
    speedups = {name: solution.speedup for name, solution in baselines.items()}
    speedups["traffic bound"] = report.latency_s / report.traffic_bound_s
    return f" ({', '.join(f'{name} {ratio(speedup)}' for name, speedup in speedups.items())})"


def _set_name(public: PublicSet) -> str:
    return f"xla-msa {public.name}"
