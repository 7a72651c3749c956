"""PPO and A2C for both formulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memplace_agents.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.learning_agent import LearningAgent
from memplace_agents.learning.training import TrainingRun
from memplace_agents.ppo.factored_run import INPUTS, FactoredRun
from memplace_agents.ppo.game_episodes import GameEpisodes
from memplace_agents.ppo.game_run import GameRun
from memplace_agents.ppo.ppo_config import A2CConfig, PPOConfig
from memplace_env._lib.errors import AgentError


class PPOAgent(LearningAgent[OneShotEvaluator | GameEvaluator, FlatPolicy]):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347) that never plays an illegal action.

    In one-shot environments the policy decides all entries at once, and learns from the best of each round; in
    mallocGame it decides use by use. Every plan tried while it learns counts, after those of the rules, so that it is
    never worse than the best of these.

    The config is a `PPOConfig`. The policy is a `FlatPolicy`, which may come from other programs: in one-shot
    environments from a machine with as many levels, in mallocGame from any game. All other arguments are those of
    `LearningAgent`.
    """

    settings = PPOConfig
    network = FlatPolicy
    rounds_between_checkpoints = 20

    def new_run(self, evaluators: Sequence[OneShotEvaluator | GameEvaluator], seed: int) -> TrainingRun[FlatPolicy]:
        """Return a run on environments of one formulation.

        Raises:
            AgentError: if the environments or the given policy do not fit together.
        """
        one_shot: list[Any] = [evaluator for evaluator in evaluators if isinstance(evaluator, OneShotEvaluator)]
        if not one_shot:
            games: Any = evaluators
            self._check(GameEpisodes.inputs, GameEpisodes.actions)
            return GameRun(self.config, games, self.policy, seed)
        levels = {evaluator.env.accelerator.num_levels for evaluator in one_shot}
        if len(one_shot) < len(evaluators) or len(levels) > 1:
            raise AgentError(
                f"{self.name} trains on environments of one formulation and on machines with equally many levels; "
                "pass such environments."
            )
        self._check(INPUTS, levels.pop())
        return FactoredRun(self.config.one_shot, one_shot, self.policy, seed)

    def _check(self, inputs: int, actions: int) -> None:
        """Refuse a policy of other environments.

        Raises:
            AgentError: if the policy is one.
        """
        options = {} if self.policy is None else self.policy.options
        if options and (options["inputs"], options["actions"]) != (inputs, actions):
            raise AgentError(
                f"The policy has {options['inputs']} inputs and {options['actions']} actions, where {inputs} and "
                f"{actions} are needed; pass one that was trained in this formulation, with as many memory levels."
            )


class A2CAgent(PPOAgent):
    """Advantage actor-critic (Mnih et al., arXiv 1602.01783): the learner of `PPOAgent` without its limit of change.

    One gradient step for each round, so rounds are small. The config is an `A2CConfig`.
    """

    settings = A2CConfig
