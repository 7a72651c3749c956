"""MuZero's three functions (representation, dynamics, prediction) and its categorical numbers, in torch.

In shapes `B` denotes the batch dimension.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from memplace_agents.learning.policy_file import PolicyNetwork
from memplace_agents.muzero.free_game import LOOKAHEAD_COLUMN, NUM_FEATURES, Observation
from memplace_env.envs.malloc_game.state import ACTIONS

EPSILON = 0.001
"""Slope of the linear term of the value transform (MuZero)."""


def value_transform(values: Tensor) -> Tensor:
    """Return h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al., arXiv 1805.11593; MuZero, appendix F)."""
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + EPSILON * values


def inverse_value_transform(transformed: Tensor) -> Tensor:
    """Undo `value_transform`."""
    root = ((1 + 4 * EPSILON * (transformed.abs() + 1 + EPSILON)).sqrt() - 1) / (2 * EPSILON)
    return transformed.sign() * (root.square() - 1)


class Support:
    """Numbers as distributions over atoms that are evenly spaced in h(x) (MuZero, appendix F).

    Values here are points, see `FreeGame`: most games differ by a few, the worst by a hundred. h puts atoms a point
    apart where it matters, near the greedy player's result. Unlike in MuZero a distribution stands for its mean of x,
    not of h(x), so that nothing is lost between two atoms and no mean is biased; our choice.

    Args:
        bins: number of atoms; odd, so that one of them is 0.
        reach: numbers beyond -reach..reach are cut off.
    """

    def __init__(self, bins: int, reach: float) -> None:
        self.bins = bins
        edge = value_transform(torch.tensor(float(reach)))
        self._atoms = inverse_value_transform(torch.linspace(-1, 1, bins) * edge)

    def encode(self, values: Tensor) -> Tensor:
        """Return distributions float32[..., bins] over the two atoms next to each number float32[...]."""
        values = values.clamp(self._atoms[0], self._atoms[-1])
        lower = (torch.searchsorted(self._atoms, values.contiguous(), right=True) - 1).clamp(0, self.bins - 2)
        # float32[..., 1], how far the number is from the lower atom towards the upper one.
        upper_share = ((values - self._atoms[lower]) / (self._atoms[lower + 1] - self._atoms[lower]))[..., None]
        return (1 - upper_share) * one_hot(lower, self.bins) + upper_share * one_hot(lower + 1, self.bins)

    def decode(self, logits: Tensor) -> Tensor:
        """Return the means float32[...] of distributions, from their logits float32[..., bins]."""
        return logits.softmax(-1) @ self._atoms


class Prediction(NamedTuple):
    """Output of the network for `B` latent states.

    Attributes:
        policy_logits: float32[B, 3].
        value_logits: float32[B, bins], see `Support`.
    """

    policy_logits: Tensor
    value_logits: Tensor


class MuZeroNetwork(PolicyNetwork):
    """MuZero's network for any game on any machine, as observations have one shape. Layers and sizes are our choice.

    Dynamics and prediction, which each simulation calls, are two-layer perceptrons; the representation, called once
    for each decision, has two convolutions over the profile as well.

    Args:
        latent, hidden: widths of the latent states and of the hidden layers.
        bins, reach: number of atoms and range of rewards and values, see `Support`.
        lookahead: whether the network sees the coming decisions.

    Attributes:
        options: the arguments, by name.
        support: support of rewards and values.
    """

    KIND = "muzero-policy/3"
    OPTIONS: ClassVar = {"latent": int, "hidden": int, "bins": int, "reach": float, "lookahead": bool}

    def __init__(
        self, latent: int = 64, hidden: int = 128, bins: int = 61, reach: float = 200.0, lookahead: bool = True
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {
            "latent": latent,
            "hidden": hidden,
            "bins": bins,
            "reach": reach,
            "lookahead": lookahead,
        }
        self.support = Support(bins, reach)
        self._num_features = NUM_FEATURES if lookahead else LOOKAHEAD_COLUMN
        # [B, 2, 32, 32] -> [B, 8, 8, 8] -> [B, 16, 3, 3] -> [B, 144]
        self.profile_convolutions = nn.Sequential(
            nn.Conv2d(2, 8, 4, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.profile_linear = nn.Linear(16 * 3 * 3, hidden)
        self.features_linear = nn.Linear(self._num_features, hidden)
        self.representation_head = nn.Sequential(
            nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, latent)
        )
        self.latent_norm = nn.LayerNorm(latent)
        self.action_embedding = nn.Embedding(len(ACTIONS), hidden)
        self.dynamics_linear = nn.Linear(latent, hidden)
        self.dynamics_head = nn.Linear(hidden, latent + bins)
        self.prediction_linear = nn.Linear(latent, hidden)
        self.prediction_head = nn.Linear(hidden, len(ACTIONS) + bins)
        # Untrained policies are uniform, untrained values and rewards 0.
        prediction, dynamics = self.prediction_head, self.dynamics_head
        with torch.no_grad():
            for weights in (prediction.weight, prediction.bias, dynamics.weight[latent:], dynamics.bias[latent:]):
                weights.zero_()

    def representation(self, observation: Observation) -> Tensor:
        """Return latent states float32[B, latent] of observations."""
        profile, features = torch.from_numpy(observation.profile), torch.from_numpy(observation.features)
        hidden = self.profile_linear(self.profile_convolutions(profile.float() / 255))
        hidden = hidden + self.features_linear(features[:, : self._num_features].float())
        latents: Tensor = self.latent_norm(self.representation_head(hidden))
        return latents

    def dynamics(self, latents: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Play actions int64[B] in latent states float32[B, latent].

        Returns:
            the next latent states, and the logits float32[B, bins] of the rewards.
        """
        # float32[B, latent + bins]: the change of the latent states, then the logits of the rewards.
        outputs = self.dynamics_head(torch.relu(self.dynamics_linear(latents) + self.action_embedding(actions)))
        width = latents.shape[1]
        return self.latent_norm(latents + outputs[:, :width]), outputs[:, width:]

    def prediction(self, latents: Tensor) -> Prediction:
        """Return the logits of policy and value of latent states float32[B, latent]."""
        outputs = self.prediction_head(torch.relu(self.prediction_linear(latents)))
        return Prediction(outputs[:, : len(ACTIONS)], outputs[:, len(ACTIONS) :])
