"""Settings of `PPO`, for each formulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from memplace_agents.learning.settings import check_settings


@dataclass(frozen=True)
class PPOSettings:
    """Settings in one formulation; the defaults are those of mallocGame. All are our choice.

    What keeps a game's policy at its peak is whole games a round and lambda 1: a critic errs by more than what
    decisions still differ by, and a smaller lambda, or a cut within games, makes it the judge of them.

    Attributes:
        envs: environments side by side.
        n_steps: steps of each environment in a round; 0 for whole episodes, and at least 100.
        minibatch: steps for each gradient step, about.
        epochs: passes over a round.
        rate: learning rate of Adam; falls to 0 with the fraction of the budget that is left.
        entropy: weight of the entropy; falls likewise.
        width: width of the two hidden layers of policy and critic.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    envs: int = 32
    n_steps: int = 0
    minibatch: int = 512
    epochs: int = 4
    rate: float = 1e-3
    entropy: float = 0.0
    width: int = 64

    def __post_init__(self) -> None:
        check_settings(self, at_least_one=("envs", "minibatch", "epochs", "width"))


@dataclass(frozen=True)
class PPOConfig:
    """Settings of `PPO`.

    Attributes:
        one_shot: settings in one-shot environments, whose episodes have one step.
        games: settings in mallocGame.
        steps: settings in steps.
    """

    one_shot: PPOSettings = field(default_factory=lambda: PPOSettings(256, 4, 1024))
    games: PPOSettings = field(default_factory=PPOSettings)
    steps: PPOSettings = field(default_factory=lambda: PPOSettings(128, 0, 2048, 3, rate=2e-3, entropy=0.06))


CONFIGS = {"default": PPOConfig()}
"""Settings by name, for the command line."""
