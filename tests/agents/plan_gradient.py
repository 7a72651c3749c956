"""Small runs of plan-gradient and ppo."""

from memplace_agents import PPO, PlanGradient, PlanGradientConfig, PPOConfig
from memplace_agents.learning.factored_learner import FactoredSettings
from memplace_agents.ppo.ppo_config import PPOSettings
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.steps import StepsEnv
from memplace_env.placement.synthetic import random_dag

AT_ONCE = FactoredSettings(least_samples=8, width=8)
IN_TURN = PPOSettings(envs=4, n_steps=6, minibatch=16, epochs=2, width=8, entropy=0.01)
"""Rounds end within episodes."""


def small(**options):
    return PlanGradient(PlanGradientConfig(AT_ONCE, AT_ONCE), **options)


def small_ppo(**options):
    return PPO(PPOConfig(IN_TURN, IN_TURN, IN_TURN), **options)


def env_of(formulation, seed=3):
    """A program larger than fast memory, as a one-shot environment or in steps if the text says so, else as a game."""
    if formulation.endswith("steps"):
        return StepsEnv(random_dag(seed, ops=8, largest=60_000_000), "nnp-i")
    if formulation.endswith("one-shot"):
        return OneShotEnv(random_dag(seed, ops=8, largest=60_000_000), "nnp-i")
    return MallocGameEnv(random_dag(seed, ops=5, largest=60_000_000), "tpu-v4i")
