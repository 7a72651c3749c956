"""Small runs of plan-gradient, in which rounds end within games."""

from dataclasses import replace

from memplace_agents import PlanGradient, PlanGradientConfig
from memplace_agents.learning.factored_learner import FactoredSettings
from memplace_agents.plan_gradient.in_turn.on_policy_settings import OnPolicySettings
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.synthetic import random_dag

AT_ONCE = FactoredSettings(least_samples=8, width=8)
SMALL = PlanGradientConfig(
    AT_ONCE,
    AT_ONCE,
    OnPolicySettings(envs=4, steps=6, minibatch=16, width=8, warm_up=0.5, imitation=0.1, table_rate=0.01),
)


def small(in_turn=False, **options):
    return PlanGradient(replace(SMALL, in_turn=in_turn), **options)


def env_of(formulation, seed=3):
    """A program larger than fast memory, as a one-shot environment if the text says so, else as a game."""
    if formulation.endswith("one-shot"):
        return OneShotEnv(random_dag(seed, ops=8, largest=60_000_000), "nnp-i")
    return MallocGameEnv(random_dag(seed, ops=5, largest=60_000_000), "tpu-v4i")
