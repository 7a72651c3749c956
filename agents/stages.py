"""Several agents in turn within one budget, the best plan of all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from agents.base import Agent
from agents.evaluator import Evaluator
from agents.solution import Outcome, Stint, Verdict
from memplace_env.errors import AgentError


class Stage(NamedTuple):
    """One agent, and what it may spend: a share of what is left of budget and time, and seconds at most.

    `name` is what its stint is called; None: as the agent.
    """

    agent: Agent[Any]
    share: float = 1.0
    seconds: float | None = None
    name: str | None = None


def check_shares(stages: Sequence[Stage]) -> None:
    """Refuse shares that make no sense.

    Raises:
        AgentError: naming the agent.
    """
    for agent, share, *_ in stages:
        if not 0 < share <= 1:
            raise AgentError(f"{agent.name}'s share of {share} makes no sense; pass more than 0, up to 1.")


def run_stages(evaluator: Evaluator, stages: Sequence[Stage], seed: int) -> Verdict:
    """Let each stage spend its share, until one proves that its plan is the best there is; the first runs in any case.

    What a stage leaves goes to those after it. What it finds is kept at once, so that nothing is lost if it is stopped;
    an interrupt (Ctrl-C, or a KeyboardInterrupt from the callback) ends the search.
    """
    stints: list[Stint] = []
    outcome: Outcome = "feasible"
    bounds: list[float] = []
    with suppress(KeyboardInterrupt):
        for agent, share, seconds, name in stages:
            if stints and (evaluator.remaining <= 0 or outcome == "optimal"):
                break
            part = evaluator.part(share, seconds)
            try:
                verdict = agent.run(part, seed) or Verdict()
            finally:
                stints.append(Stint(name or agent.name, part.best_latency_s, part.evaluations, part.seconds))
            outcome = verdict.outcome
            bounds += [] if verdict.bound_s is None else [verdict.bound_s]
    return Verdict(outcome, max(bounds, default=None), tuple(stints))
