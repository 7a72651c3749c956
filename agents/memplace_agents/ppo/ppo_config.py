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
        games: settings in mallocGame, where all uses are decided at once.
        games_in_turn: the same where they are decided in turn.
        in_turn: decide the uses of every game in turn, not only of drawn programs.
    """

    one_shot: FactoredSettings = field(default_factory=FactoredSettings)
    games: FactoredSettings = field(default_factory=lambda: FactoredSettings(lean=0.0))
    games_in_turn: OnPolicySettings = field(default_factory=OnPolicySettings)
    in_turn: bool = False


@dataclass(frozen=True)
class A2CConfig(PPOConfig):
    """Settings of `A2CAgent`: one gradient step for each small round, without a limit of change; games in turn."""

    one_shot: FactoredSettings = field(default_factory=lambda: FactoredSettings(epochs=1, clip=0.0, largest_kl=ENDLESS))
    games: FactoredSettings = field(
        default_factory=lambda: FactoredSettings(lean=0.0, epochs=1, clip=0.0, largest_kl=ENDLESS)
    )
    games_in_turn: OnPolicySettings = field(
        default_factory=lambda: OnPolicySettings(steps=16, epochs=1, clip=0.0, largest_kl=ENDLESS)
    )
    in_turn: bool = True


PPO_CONFIGS = {"default": PPOConfig(), "in-turn": PPOConfig(in_turn=True)}
A2C_CONFIGS = {"default": A2CConfig()}
"""Settings by name, for the command line."""
