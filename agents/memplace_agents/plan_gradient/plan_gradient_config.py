"""Settings of `PlanGradient`, for each formulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from memplace_agents.learning.factored_learner import FactoredSettings


@dataclass(frozen=True)
class PlanGradientConfig:
    """Settings of `PlanGradient`; our choice, from trials on few programs.

    Attributes:
        one_shot: settings in one-shot environments.
        games: settings in mallocGame, where all uses are decided at once.
    """

    one_shot: FactoredSettings = field(default_factory=FactoredSettings)
    games: FactoredSettings = field(default_factory=lambda: FactoredSettings(least_samples=32, growth=0.8, lean=0.0))


CONFIGS = {"default": PlanGradientConfig()}
"""Settings by name, for the command line."""
