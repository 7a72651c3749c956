"""Settings of the on-policy agents, for each formulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from memplace_agents.learning.factored_learner import FactoredSettings
from memplace_agents.learning.on_policy_settings import OnPolicySettings

ENDLESS = 1e9
"""A limit that is never reached."""


@dataclass(frozen=True)
class PPOConfig:
    """Settings of `PPOAgent`; our choice, from trials on few programs.

    Attributes:
        one_shot: settings in one-shot environments.
        games: settings in mallocGame.
    """

    one_shot: FactoredSettings = field(default_factory=FactoredSettings)
    games: OnPolicySettings = field(default_factory=OnPolicySettings)


@dataclass(frozen=True)
class A2CConfig(PPOConfig):
    """Settings of `A2CAgent`: one gradient step for each small round, without a limit of change."""

    one_shot: FactoredSettings = field(default_factory=lambda: FactoredSettings(epochs=1, clip=0.0, largest_kl=ENDLESS))
    games: OnPolicySettings = field(
        default_factory=lambda: OnPolicySettings(steps=16, epochs=1, clip=0.0, largest_kl=ENDLESS)
    )


PPO_CONFIGS = {"default": PPOConfig()}
A2C_CONFIGS = {"default": A2CConfig()}
"""Settings by name, for the command line."""
