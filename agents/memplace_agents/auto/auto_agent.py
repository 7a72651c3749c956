"""The default agent of one-shot environments: rules, then a proof, then a search."""

from __future__ import annotations

from memplace_agents.calibrated import Calibrated
from memplace_agents.exact import Exact, break_ties
from memplace_agents.optimality import TieBreak
from memplace_agents.rules import BestRule
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.search.local_search import LocalSearch
from memplace_agents.search.stages import PROOF_WORK, Stage, run_stages
from memplace_agents.solution import Verdict


class Auto(Agent[OneShotEvaluator]):
    """Returns the best plan of all rules, the exact agent and a local search, in this order.

    With cost arrays the choice of levels is a mixed-integer linear program, which the exact agent solves in seconds.
    The search follows only if the best plan is not proven optimal; it starts from that plan and takes the rest of the
    budget. If the simulator is a black box or measurements are noisy, `Calibrated`
    takes the place of the first two.

    Args:
        tie_break: see `Exact`; it holds for the plan of the search, too.

    Raises:
        AgentError: if there is no such tie-break.
    """

    def __init__(self, tie_break: TieBreak = "backing") -> None:
        self._exact = Exact(tie_break=tie_break, work=PROOF_WORK)

    def run(self, evaluator: OneShotEvaluator, seed: int) -> Verdict:
        """Run the stages in turn until the best plan is proven optimal."""
        stages = [
            Stage(BestRule(), measured=False),
            Stage(self._exact, 0.9, measured=False, proof=True),
            Stage(Calibrated(), measured=True),
            Stage(LocalSearch()),
        ]
        return run_stages(evaluator, stages, seed, break_ties if self._exact.tie_break == "backing" else None)
