"""The default agents: rules, then proofs, then searches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memplace_agents.calibrated import Calibrated
from memplace_agents.cross_entropy import CrossEntropy
from memplace_agents.exact import Exact, break_ties
from memplace_agents.exact.static.level_moves import affordable
from memplace_agents.optimality import TieBreak, check_tie_break
from memplace_agents.rule_agents import BestRule
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.search.local_search import LocalSearch
from memplace_agents.search.stages import PROOF_WORK, Stage, check_shares, run_stages
from memplace_agents.solution import Verdict

EXACT_SHARE = 0.5
"""Fraction of the budget left after the rules that the exact agent may take."""


class Auto(Agent[OneShotEvaluator]):
    """Returns the best plan of all rules, the exact agent and a local search, in this order.

    With cost arrays the choice of levels is a mixed-integer linear program, which the exact agent solves in seconds.
    The search follows only if the best plan is not proven optimal; it starts from that plan and takes the rest of the
    budget. If the simulator is a black box or measurements are noisy, `Calibrated` takes the place of the first two.

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
            Stage(BestRule(), only_if="provable"),
            Stage(self._exact, 0.9, only_if="provable", proof=True),
            Stage(Calibrated(), only_if="measured"),
            Stage(LocalSearch(), _share(evaluator)),
        ]
        return run_stages(evaluator, stages, seed, break_ties if self._exact.tie_break == "backing" else None)


def _share(evaluator: OneShotEvaluator) -> float:
    """Return the part of the budget for a search that nothing else limits: less than all in large programs."""
    most = affordable(evaluator.env.task) if evaluator.seconds_left is None else evaluator.budget
    return min(1.0, most / evaluator.budget)


class Portfolio(Agent[GameEvaluator]):
    """Runs all rules, XLA's memory-space assignment among them, then the exact agent, then the cross-entropy method.

    Like mallocMuZero's "Prod" it is never worse than XLA's solver. Each solver begins with the best plan before it,
    those that play games with the game that follows it. The search ends once the best plan is proven. The part of its
    share that a solver leaves goes to those after it. An interrupt (Ctrl-C, or a KeyboardInterrupt from the callback)
    ends the search with the best plan so far. If the simulator is a black box or measurements are noisy, `Calibrated`
    takes the place of the rules and of the exact agent.

    Args:
        policy: file of a network of `MuZero`; half of the budget left after the exact agent then goes to MuZero.
        stages: other solvers than these, in order.
        tie_break: see `Exact`; it holds for the plans of all solvers.

    Raises:
        AgentError: if a share is out of range, the policy cannot be read, or there is no such tie-break.
    """

    def __init__(
        self,
        policy: str | Path | None = None,
        *,
        stages: Sequence[Stage] | None = None,
        tie_break: TieBreak = "backing",
    ) -> None:
        check_tie_break(tie_break)
        self._tie_break = tie_break
        self._stages = [*stages] if stages is not None else _default_stages(policy, tie_break)
        check_shares(self._stages)

    def run(self, evaluator: GameEvaluator, seed: int) -> Verdict:
        """Run the stages in turn, see `run_stages`."""
        return run_stages(evaluator, self._stages, seed, break_ties if self._tie_break == "backing" else None)


def _default_stages(policy: str | Path | None, tie_break: TieBreak) -> list[Stage]:
    stages = [
        Stage(BestRule(), only_if="provable"),
        Stage(Exact(tie_break=tie_break, work=PROOF_WORK), EXACT_SHARE, only_if="provable", proof=True),
        Stage(Calibrated(), only_if="measured"),
        Stage(CrossEntropy()),
    ]
    if policy is not None:
        from memplace_agents.muzero import MuZero

        stages.insert(-1, Stage(MuZero(policy=policy), 0.5))
    return stages
