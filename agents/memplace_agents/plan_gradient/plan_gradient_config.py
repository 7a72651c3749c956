"""Settings of `PlanGradient`, for each formulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from memplace_agents.learning.factored_learner import FactoredSettings
from memplace_agents.plan_gradient.in_turn.on_policy_settings import OnPolicySettings


@dataclass(frozen=True)
class PlanGradientConfig:
    """Settings of `PlanGradient`; our choice, from trials on few programs.

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


CONFIGS = {"default": PlanGradientConfig(), "in-turn": PlanGradientConfig(in_turn=True)}
"""Settings by name, for the command line."""
