"""MuZero's three functions (representation, dynamics, prediction) in torch, with normalised values.

In shapes `B` denotes the batch dimension.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from memplace_agents.learning.policy_file import PolicyNetwork
from memplace_env.envs.malloc_game.flat import flat_space
from memplace_env.envs.malloc_game.state import ACTIONS

NUM_FEATURES = flat_space().shape[0]
"""Numbers of an observation."""


class Prediction(NamedTuple):
    """Output of the network for `B` latent states.

    Attributes:
        policy_logits: float32[B, 3].
        values: float32[B], normalised.
    """

    policy_logits: Tensor
    values: Tensor


class MuZeroNetwork(PolicyNetwork):
    """MuZero's network for any game on any machine, as observations have one shape. Layers and sizes are our choice.

    The representation is two perceptrons of two layers, one for the policy and one for the value: with one for both the
    policy was far worse. Values are in units of `scale` around `mean` (PopArt, Hessel et al., arXiv 1809.04474), so
    that rewards of any size are learned alike. Only the learned model calls the dynamics.

    Args:
        hidden: width of all layers; latent states have twice as many numbers.

    Attributes:
        options: the arguments, by name.
        mean, scale: float32[], unit of values in points.
    """

    KIND = "muzero-policy/4"
    OPTIONS: ClassVar = {"hidden": int}
    mean: Tensor
    scale: Tensor

    def __init__(self, hidden: int = 128) -> None:
        super().__init__()
        self.options: dict[str, Any] = {"hidden": hidden}
        self.policy_torso, self.value_torso = _torso(NUM_FEATURES, hidden), _torso(NUM_FEATURES, hidden)
        self.policy_head, self.value_head = nn.Linear(hidden, len(ACTIONS)), nn.Linear(hidden, 1)
        self.dynamics_linear = nn.Linear(2 * hidden + len(ACTIONS), hidden)
        self.dynamics_head = nn.Linear(hidden, 2 * hidden + 1)
        # Untrained policies are nearly uniform, untrained values and rewards nearly 0.
        for head in (self.policy_head, self.value_head, self.dynamics_head):
            nn.init.orthogonal_(head.weight, 0.01)
            nn.init.zeros_(head.bias)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def representation(self, observations: Tensor) -> Tensor:
        """Return latent states float32[B, 2 hidden] of observations float32[B, 546]."""
        return torch.cat([self.policy_torso(observations), self.value_torso(observations)], dim=1)

    def dynamics(self, latents: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Play actions int64[B] in latent states float32[B, 2 hidden].

        Returns:
            the next latent states; and float32[B], the rewards over `scale`.
        """
        played = one_hot(actions, len(ACTIONS)).to(latents.dtype)
        outputs = self.dynamics_head(torch.tanh(self.dynamics_linear(torch.cat([latents, played], dim=1))))
        return torch.tanh(latents + outputs[:, :-1]), outputs[:, -1]

    def prediction(self, latents: Tensor) -> Prediction:
        """Return policy and values of latent states float32[B, 2 hidden]."""
        for_policy, for_value = latents.chunk(2, dim=1)
        return Prediction(self.policy_head(for_policy), self.value_head(for_value)[:, 0])

    def points(self, values: Tensor) -> Tensor:
        """Return normalised values in points."""
        return self.mean + self.scale * values

    def normalised(self, points: Tensor) -> Tensor:
        """Return points as normalised values."""
        return (points - self.mean) / self.scale

    def renormalise(self, mean: float, scale: float) -> None:
        """Change the unit of values and rewards, without changing the network's values and rewards in points."""
        with torch.no_grad():
            ratio = self.scale / scale
            self.value_head.weight *= ratio
            self.value_head.bias.copy_(ratio * self.value_head.bias + (self.mean - mean) / scale)
            self.dynamics_head.weight[-1] *= ratio
            self.dynamics_head.bias[-1] *= ratio
            self.mean.fill_(mean)
            self.scale.fill_(scale)


def _torso(inputs: int, hidden: int) -> nn.Sequential:
    """Return a perceptron of two layers, with orthogonal weights."""
    first, second = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
    for layer in (first, second):
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh())
