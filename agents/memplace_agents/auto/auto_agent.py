"""The default agent of one-shot environments: cheap heuristics, then a proof, then a search."""

from __future__ import annotations

from memplace_agents.base import Agent
from memplace_agents.evaluator import OneShotEvaluator
from memplace_agents.exact import Exact
from memplace_agents.heuristic import CompilersRule, DensityGreedy, LocalSearch
from memplace_agents.solution import Verdict
from memplace_agents.stages import PROOF_SECONDS, Stage, run_stages

FIRST_RULES = ("native", "all-fastest")
"""The compiler's heuristics that come first, by their names in `HEURISTICS`."""


class Auto(Agent[OneShotEvaluator]):
    """Returns the best plan of the compiler's heuristics, the exact agent and a local search, in this order.

    With cost arrays the choice of levels is a mixed-integer linear program, which the exact agent solves in seconds.
    The search follows only if the best plan is not proven optimal; it starts from that plan and takes the rest of the
    budget. The exact agent is left out if the simulator is a black box or measurements are noisy.
    """

    def run(self, evaluator: OneShotEvaluator, seed: int) -> Verdict:
        """Run the stages in turn until the best plan is proven optimal."""
        stages = [
            *(Stage(CompilersRule(rule), name=rule) for rule in FIRST_RULES),
            Stage(DensityGreedy()),
            Stage(Exact(cheap=False), 0.9, PROOF_SECONDS, proof=True),
            Stage(LocalSearch()),
        ]
        return run_stages(evaluator, stages, seed)
