"""Settings of on-policy learning."""

from __future__ import annotations

from dataclasses import dataclass

from memplace_agents.settings import check_settings
from memplace_env._lib.errors import AgentError


@dataclass(frozen=True)
class OnPolicySettings:
    """Settings of `OnPolicyLearner` in one formulation; the defaults are those of mallocGame. All are our choice.

    Attributes:
        envs: episodes side by side.
        steps: decisions of each episode in a round; 0 for whole episodes.
        epochs: passes over a round; fewer if the policy changes more than `largest_kl`.
        minibatch: decisions for each gradient step.
        rate: learning rate of Adam; falls to 0 with the fraction of the budget that is left.
        table_rate: the same for the tables of entries; 0 for no tables.
        entropy: weight of the entropy, in nats a decision; falls like `rate`.
        lambda_: of generalised advantage estimation; the discount is 1.
        width: width of the two hidden layers of policy and critic.
        clip: largest change of a probability that is rewarded; 0 for no limit, the plain policy gradient.
        largest_kl: divergence from the policy that played, in nats, at which a round's epochs end.
        imitation: weight of the cross-entropy of demonstrations.
        warm_up: cross-entropy, in nats a decision, down to which demonstrations are imitated before the first round; 0
            for no imitation.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    envs: int = 64
    steps: int = 128
    epochs: int = 4
    minibatch: int = 1024
    rate: float = 1e-3
    table_rate: float = 0.0
    entropy: float = 0.01
    lambda_: float = 0.95
    width: int = 128
    clip: float = 0.2
    largest_kl: float = 0.05
    imitation: float = 0.1
    warm_up: float = 0.03

    def __post_init__(self) -> None:
        check_settings(self, at_least_one=("envs", "epochs", "minibatch", "width"))
        if self.lambda_ > 1:
            raise AgentError(f"lambda_ must be at most 1, not {self.lambda_}.")
