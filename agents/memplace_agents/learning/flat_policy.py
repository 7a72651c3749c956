"""Policies over observations that are vectors, their first weights, and critics of several programs."""

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


class Critic(nn.Module):
    """Returns to come of several programs, in units of the running mean and deviation of each program's returns.

    Returns differ by orders of magnitude between programs (PopArt, van Hasselt et al., arXiv 1602.07714).

    Args:
        inputs: length of the observation.
        width: width of the hidden layers.
        programs: number of programs.

    Attributes:
        mean, deviation: float64[programs], of each program's returns.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, inputs: int, width: int, programs: int) -> None:
        super().__init__()
        self.layers = mlp(inputs, width, programs)
        self.register_buffer("mean", torch.zeros(programs, dtype=torch.float64))
        self.register_buffer("deviation", torch.ones(programs, dtype=torch.float64))

    def forward(self, observation: Tensor, program: int) -> Tensor:
        """Return float32[...], expected returns of observations float32[..., inputs] in the program's units."""
        values: Tensor = self.layers(observation)[..., program]
        return values

    def values(self, observation: Tensor, program: int) -> Tensor:
        """Return float32[...], expected returns in the environment's units."""
        values: Tensor = self(observation, program)
        return values * self.deviation[program].float() + self.mean[program].float()

    @torch.no_grad()
    def rescale(self, returns: Tensor, program: int, weight: float) -> None:
        """Move mean and deviation towards those of `returns` by a weight of 0..1, such that all values stay."""
        mean, deviation = self.mean[program].clone(), self.deviation[program].clone()
        precise = returns.double()
        self.mean[program] += weight * (precise.mean() - mean)
        square = (1 - weight) * (deviation**2 + mean**2) + weight * precise.square().mean()
        self.deviation[program] = (square - self.mean[program] ** 2).clamp(min=1e-12).sqrt()
        last = self.layers[-1]
        assert isinstance(last, nn.Linear)
        last.weight[program] *= (deviation / self.deviation[program]).float()
        shifted = last.bias[program].double() * deviation + mean - self.mean[program]
        last.bias[program] = (shifted / self.deviation[program]).float()


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
