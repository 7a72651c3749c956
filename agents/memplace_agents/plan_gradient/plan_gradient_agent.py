"""Policy gradients for whole plans, in both formulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memplace_agents.learning.entry_features import check_fits, entry_decisions
from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.learning_agent import LearningAgent
from memplace_agents.learning.training import TrainingRun
from memplace_agents.plan_gradient.factored_run import FactoredRun
from memplace_agents.plan_gradient.plan_gradient_config import PlanGradientConfig
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.search.factored_programs import program_of
from memplace_env._lib.errors import AgentError


class PlanGradient(LearningAgent[OneShotEvaluator | GameEvaluator, FlatPolicy]):
    """Risk-seeking policy gradient (Petersen et al., arXiv 1912.04871) that samples whole plans.

    The policy decides all entries of an assignment, or all uses of a game, at once, and learns from the best of each
    round by rank, with clipped gradient steps and without a value function. Every plan tried while it learns counts,
    after those of the rules, so that it is never worse than the best of these.

    The config is a `PlanGradientConfig`. The policy is a `FlatPolicy`, which may come from other programs: in one-shot
    environments from a machine with as many levels, in mallocGame from any game. All other arguments are those of
    `LearningAgent`.
    """

    settings = PlanGradientConfig
    network = FlatPolicy
    rounds_between_checkpoints = 20

    def new_run(self, evaluators: Sequence[OneShotEvaluator | GameEvaluator], seed: int) -> TrainingRun[FlatPolicy]:
        """Return a run on environments of one formulation.

        Raises:
            AgentError: if the environments or the given policy do not fit together.
        """
        games: list[Any] = [evaluator for evaluator in evaluators if isinstance(evaluator, GameEvaluator)]
        levels = {evaluator.env.accelerator.num_levels for evaluator in evaluators}
        if (0 < len(games) < len(evaluators)) or (not games and len(levels) > 1):
            raise AgentError(
                f"{self.name} trains on environments of one formulation and on machines with equally many levels; "
                "pass such environments."
            )
        if any(some.env.programs is not None for some in games):
            raise AgentError(
                f"{self.name} has a table for each program, so it draws none; train ppo on drawn programs."
            )
        programs = [program_of(evaluator) for evaluator in evaluators]
        decisions = [entry_decisions(program) for program in programs]
        if self.policy is not None:
            check_fits(self.policy, decisions[0])
        settings = self.config.games if games else self.config.one_shot
        return FactoredRun(settings, programs, decisions, self.policy, seed)
