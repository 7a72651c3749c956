"""Proximal policy optimisation, in all three formulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memplace_agents.learning.learning_agent import LearningAgent
from memplace_agents.learning.training import TrainingRun
from memplace_agents.ppo.actor_critic import ActorCritic
from memplace_agents.ppo.counted_envs import CountedAssignments, CountedEnv, CountedEpisodes
from memplace_agents.ppo.ppo_config import PPOConfig
from memplace_agents.ppo.ppo_run import PPORun
from memplace_agents.search.evaluator import EpisodeEvaluator, OneShotEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env.envs.registration import Formulation


class PPO(LearningAgent[OneShotEvaluator | EpisodeEvaluator, ActorCritic]):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347) by Stable-Baselines3, masked by sb3-contrib.

    It plays the native vector environments: assignments at once, entry by entry in steps, use by use in mallocGame.
    Every plan sampled while it learns counts, after those of the rules, so that with a budget for all of these it
    is never worse than the best of them.

    The config is a `PPOConfig`. The policy is an `ActorCritic`, which may come from other programs: in one-shot
    environments from one with as many ops on a machine with as many levels, in steps and games from any. All other
    arguments are those of `LearningAgent`.
    """

    settings = PPOConfig
    network = ActorCritic
    rounds_between_checkpoints = 20

    def new_run(self, evaluators: Sequence[OneShotEvaluator | EpisodeEvaluator], seed: int) -> TrainingRun[ActorCritic]:
        """Return a run on environments of one formulation, in one shot on one.

        Raises:
            AgentError: if the environments or the given policy do not fit together.
        """
        episodes: list[Any] = [evaluator for evaluator in evaluators if isinstance(evaluator, EpisodeEvaluator)]
        kinds = {evaluator.formulation for evaluator in evaluators}
        if len(kinds) > 1 or (not episodes and len(evaluators) > 1):
            raise AgentError(
                f"{self.name} trains on games, on steps, or on one one-shot environment, whose actions belong to its "
                "program; pass such environments."
            )
        game = kinds == {Formulation.GAME}
        settings = self.config.games if game else self.config.steps if episodes else self.config.one_shot
        envs: CountedEnv
        if episodes:
            envs = CountedEpisodes(episodes, settings.envs, seed)
        else:
            envs = CountedAssignments(evaluators[0], settings.envs)  # type: ignore[arg-type]
        return PPORun(settings, evaluators, envs, self.policy, seed)
