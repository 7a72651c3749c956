"""Several agents in turn within one budget, the best plan of all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from agents.base import Agent
from agents.evaluator import Evaluator
from agents.solution import Outcome, Stint, Verdict, is_optimal
from memplace_env.errors import AgentError

PROOF_SECONDS = 60.0
"""For the exact agent before a search that has no time limit; it proves each registered one-shot program in 15 on one
core. Our choice."""


class Stage(NamedTuple):
    """One agent, and what it may spend.

    Attributes:
        agent: who searches.
        share: of what is left of budget and time.
        seconds: at most, where the time has no limit; or None.
        name: what its stint is called; None: as the agent.
        proof: whether it is left out where nothing can be proven: a black box judges, or measurements are noisy.
    """

    agent: Agent[Any]
    share: float = 1.0
    seconds: float | None = None
    name: str | None = None
    proof: bool = False


def check_shares(stages: Sequence[Stage]) -> None:
    """Refuse shares that make no sense.

    Raises:
        AgentError: naming the agent.
    """
    for agent, share, *_ in stages:
        if not 0 < share <= 1:
            raise AgentError(f"{agent.name}'s share of {share} makes no sense; pass more than 0, up to 1.")


def run_stages(evaluator: Evaluator, stages: Sequence[Stage], seed: int) -> Verdict:
    """Let each stage spend its share, until the best plan of all is proven optimal; the first runs in any case.

    A stage may begin with the best plan before it, `Evaluator.incumbent`. What it leaves goes to those after it, what
    it finds is kept at once, so that nothing is lost if it is stopped; an interrupt (Ctrl-C, or a KeyboardInterrupt
    from the callback) ends the search. The highest bound that any stage proves holds for the plans of all.
    """
    provable = not (evaluator.env.task.is_black_box or evaluator.noisy)
    stints: list[Stint] = []
    bound_s: float | None = None
    with suppress(KeyboardInterrupt):
        for agent, share, seconds, name, _ in (stage for stage in stages if provable or not stage.proof):
            if stints and (evaluator.remaining <= 0 or is_optimal(evaluator.best_latency_s, bound_s)):
                break
            part = evaluator.part(share, seconds)
            try:
                verdict = agent.run(part, seed) or Verdict()
            finally:
                stints.append(Stint(name or agent.name, part.best_latency_s, part.evaluations, part.seconds))
            bound_s = max((each for each in (bound_s, verdict.bound_s) if each is not None), default=None)
            if verdict.interrupted:
                break
    outcome: Outcome = "optimal" if is_optimal(evaluator.best_latency_s, bound_s) else "feasible"
    return Verdict(outcome, bound_s, tuple(stints))
