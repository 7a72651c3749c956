"""Policies over observations that are vectors, and their first weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from memplace_agents.learning.policy_file import PolicyNetwork, no_numbers

_MASKED = -1e9
"""Logit of an illegal action: its probability is 0 in float32, and its gradient, too."""


class FlatPolicy(PolicyNetwork):
    """Logits of the actions from one vector, by two hidden tanh layers.

    Args:
        inputs: length of the observation.
        width: width of the hidden layers.
        actions: number of actions.
    """

    KIND: ClassVar[str] = "flat-policy/1"
    OPTIONS: ClassVar[Mapping[str, type]] = {"inputs": int, "width": int, "actions": int}

    def __init__(self, inputs: int, width: int, actions: int) -> None:
        super().__init__()
        self.options = {"inputs": inputs, "width": width, "actions": actions}
        self.layers = mlp(inputs, width, actions)

    def forward(self, observation: Tensor) -> Tensor:
        """Return logits float32[..., actions] of observations float32[..., inputs]."""
        logits: Tensor = self.layers(observation)
        return logits


def check_numbers(log_policy: Tensor, policy: FlatPolicy | None, program: str) -> None:
    """Refuse a given policy whose weights are finite and whose first outputs are not.

    Raises:
        AgentError: if it is one; it names the program.
    """
    if policy is not None and not bool(torch.isfinite(log_policy).all()):
        raise no_numbers(program)


def started(shape: tuple[int, int, int], policy: FlatPolicy | None, seed: int) -> FlatPolicy:
    """Return a copy of a policy, or a fresh one with inputs, width and actions of `shape`."""
    with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
        torch.manual_seed(seed)
        network = FlatPolicy(*shape) if policy is None else FlatPolicy(**policy.options)
    if policy is not None:
        network.load_state_dict(policy.state_dict())
    return network


def mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    """Return a network with two hidden tanh layers, whose first outputs are nearly 0."""
    layers = [nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, outputs)]
    for layer, gain in zip(layers, (2**0.5, 2**0.5, 0.01), strict=True):
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def masked_log_softmax(logits: Tensor, legal: Tensor) -> Tensor:
    """Return logarithms of probabilities float32[..., A]; illegal actions have probability 0."""
    return logits.masked_fill(~legal, _MASKED).log_softmax(-1)


def clipped_gain(change: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the policy's gain of each decision, with the ratio of probabilities clipped (PPO, arXiv 1707.06347).

    Args:
        change: logarithm of the new probability over the old one.
        advantage: of the same shape, or one that broadcasts to it.
        clip: largest change of the ratio that is rewarded.
    """
    ratio = change.exp()
    gain = ratio * advantage
    return torch.minimum(gain, ratio.clamp(1 - clip, 1 + clip) * advantage)
