"""Settings of on-policy learning."""

from __future__ import annotations

from dataclasses import dataclass

from memplace_agents.learning.settings import check_settings


@dataclass(frozen=True)
class OnPolicySettings:
    """Settings of `OnPolicyLearner` in one formulation; the defaults are those of mallocGame. All are our choice.

    Attributes:
        envs: episodes side by side.
        steps: decisions of each episode in a round; 0 for whole episodes.
        minibatch: decisions for each gradient step.
        rate: learning rate of Adam; falls to 0 with the fraction of the budget that is left.
        table_rate: the same for the tables of entries; 0 for no tables.
        width: width of the two hidden layers of policy and critic.
        imitation: weight of the cross-entropy of demonstrations.
        warm_up: cross-entropy, in nats a decision, down to which demonstrations are imitated before the first round; 0
            for no imitation.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    envs: int = 64
    steps: int = 128
    minibatch: int = 1024
    rate: float = 1e-3
    table_rate: float = 0.0
    width: int = 128
    imitation: float = 0.1
    warm_up: float = 0.03

    def __post_init__(self) -> None:
        check_settings(self, at_least_one=("envs", "minibatch", "width"))
