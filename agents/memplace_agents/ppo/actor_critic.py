"""Policies of the library as files of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor, nn

from memplace_agents.learning.policy_file import PolicyNetwork


class ActorCritic(PolicyNetwork):
    """Policy and critic, each with two hidden tanh layers, whose weights have the names that Stable-Baselines3 gives.

    Args:
        inputs: length of the observation.
        width: width of the hidden layers.
        decisions: decisions of an action, 1 in games and steps.
        actions: choices of each decision.
    """

    KIND: ClassVar[str] = "ppo-policy/1"
    OPTIONS: ClassVar[Mapping[str, type]] = {"inputs": int, "width": int, "decisions": int, "actions": int}

    def __init__(self, inputs: int, width: int, decisions: int, actions: int) -> None:
        super().__init__()
        self.options = {"inputs": inputs, "width": width, "decisions": decisions, "actions": actions}
        names = ("policy_net", "value_net")
        self.mlp_extractor = nn.ModuleDict({name: _hidden(inputs, width) for name in names})
        self.action_net, self.value_net = nn.Linear(width, decisions * actions), nn.Linear(width, 1)

    def forward(self, observation: Tensor) -> Tensor:
        """Return logits float32[..., decisions * actions] of observations float32[..., inputs]."""
        logits: Tensor = self.action_net(self.mlp_extractor["policy_net"](observation))
        return logits


def _hidden(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
