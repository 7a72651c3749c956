"""Several agents in turn within one budget, the best plan of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from memplace_agents.optimality import contradicts, is_optimal, surviving_bound
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.solution import Outcome, Verdict
from memplace_env._lib.errors import AgentError
from memplace_env.report.plans.evaluated_plan import StageResult

PROOF_WORK = 60.0
"""Work of the exact agent before a search without a time limit, see `Exact`; it proves each registered one-shot program
in 15 seconds on one core. Our choice."""


class Stage(NamedTuple):
    """One agent and its part of the budget.

    Attributes:
        agent: the agent that searches.
        share: fraction of the budget and time that are left.
        name: name of its stage result; None for the agent's.
        only_if: "provable": only under the cost arrays without noise, where proofs are possible; "measured": only where
            they are not; None: always.
        proof: True for an `Exact`, which breaks ties itself, so that `finish` need not.
    """

    agent: Agent[Any]
    share: float = 1.0
    name: str | None = None
    only_if: Literal["provable", "measured"] | None = None
    proof: bool = False


def check_shares(stages: Sequence[Stage]) -> None:
    """Check that all shares are in (0, 1].

    Raises:
        AgentError: if one is not; it names the agent.
    """
    for agent, share, *_ in stages:
        if not 0 < share <= 1:
            raise AgentError(f"The share of {agent.name} must be more than 0 and at most 1, not {share}.")


def run_stages(
    evaluator: Evaluator, stages: Sequence[Stage], seed: int, finish: Callable[[Evaluator], None] | None = None
) -> Verdict:
    """Run the stages in turn until the best plan of all is proven optimal; the first runs in any case.

    A stage may begin with the best plan before it, `Evaluator.incumbent`. The part of its share that it leaves goes to
    those after it. Its plans count at once, so that nothing is lost if it is stopped; an interrupt (Ctrl-C, or a
    KeyboardInterrupt from the callback) ends the search. The highest bound of any stage holds for the plans of all; one
    that a later plan contradicts is proven again.

    Args:
        evaluator: evaluates plans for all stages.
        stages: the stages, one at least.
        seed: seed of all randomness.
        finish: called after the last stage, unless that was a proof or nothing can be proven.
    """
    provable = not (evaluator.env.task.is_black_box or evaluator.noisy)
    kind = "provable" if provable else "measured"
    stage_results: list[StageResult] = []
    best, interrupted = Verdict(), True
    with suppress(KeyboardInterrupt):
        last, prover = stages[0], None
        for stage in (stage for stage in stages if stage.only_if in (None, kind)):
            if stage_results and (evaluator.remaining <= 0 or is_optimal(evaluator.best_latency_s, best.bound_s)):
                break
            agent, share, name, *_ = last = stage
            part = evaluator.part(share)
            try:
                verdict = agent.run(part, seed) or Verdict()
            finally:
                stage_results.append(
                    StageResult(name or agent.name, part.best_latency_s, part.evaluations, part.seconds)
                )
            best = max(best, verdict, key=lambda verdict: verdict.bound_s or 0.0)
            prover = stage if stage.proof else prover
            if verdict.interrupted:
                raise KeyboardInterrupt
            if prover is not None and contradicts(evaluator.best_latency_s, best.bound_s or 0.0):
                surviving_bound(evaluator.best_latency_s, best.bound_s, best.proof)  # which warns
                evaluator.retract()
                best = cast(Any, prover.agent).prove_again(evaluator.part(1.0))
                if best.interrupted:
                    raise KeyboardInterrupt
        if finish is not None and provable and not last.proof:
            finish(evaluator)
        interrupted = False
    outcome: Outcome = "optimal" if is_optimal(evaluator.best_latency_s, best.bound_s) else "feasible"
    return Verdict(outcome, best.bound_s, tuple(stage_results), interrupted, best.proof)
