"""What is known of a task for little, then a proof, then a search: whatever comes first to the best plan."""

from __future__ import annotations

from agents.base import Agent
from agents.evaluator import MapEvaluator
from agents.exact import Exact
from agents.heuristic import DensityGreedy, LocalSearch
from agents.solution import Verdict
from agents.stages import PROOF_SECONDS, Stage, run_stages
from memplace_env.compiler import HEURISTICS
from memplace_env.registration import Formulation

CHEAP = ("native", "all-fastest")
"""Heuristics that come first."""


class Heuristic(Agent[MapEvaluator]):
    """The plan of one of the compiler's heuristics; `rule` is its name in `HEURISTICS`."""

    name = "heuristic"
    formulations = (Formulation.ONE_SHOT,)

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def run(self, evaluator: MapEvaluator, seed: int) -> None:
        """One plan."""
        evaluator.offer(HEURISTICS[self.rule](evaluator.env.task))


class Auto(Agent[MapEvaluator]):
    """The best plan known: that of the heuristics, of the exact agent where costs add up, else of a search.

    Costs that are arrays make mapping a linear program, which the exact agent solves in seconds: a search follows only
    where the best plan is not proven, from there on, with what is left. Where a black box judges or measurements are
    noisy, the heuristics' plans are tried and the search has the rest.
    """

    name = "auto"
    formulations = (Formulation.ONE_SHOT,)

    def run(self, evaluator: MapEvaluator, seed: int) -> Verdict:
        """Nothing is searched once the best plan is proven."""
        stages = [
            *(Stage(Heuristic(rule), name=rule) for rule in CHEAP),
            Stage(DensityGreedy()),
            Stage(Exact(cheap=False), 0.9, PROOF_SECONDS, proof=True),
            Stage(LocalSearch()),
        ]
        return run_stages(evaluator, stages, seed)
