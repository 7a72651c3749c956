"""Features that the networks of mallocGame read from its observations."""

from __future__ import annotations

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

FLAT = ("bandwidth", "tensor", "lookahead", "progress", "action_mask")
"""Keys of the observation that one multi-layer perceptron reads; a convolutional network reads the profile."""


class GameFeatures(BaseFeaturesExtractor):
    """Features of mallocGame's observation, sized for two CPU cores (our choice).

    Two convolutions read `profile` at half its resolution, which takes 0.4 times as long as at full resolution; one
    hidden layer reads all the rest, one more joins the two. A flat layer suits `lookahead`, whose rows have an order.

    Args:
        observation_space: as of `MallocGame-...-v0`; floats in [0, 1], and images that have been divided by 255.
        features_dim: width of the output.
    """

    def __init__(self, observation_space: spaces.Dict, features_dim: int = 128) -> None:
        super().__init__(observation_space, features_dim)
        profile = observation_space["profile"]
        assert isinstance(profile, spaces.Box)
        channels, height, width = profile.shape
        self.profile = nn.Sequential(
            nn.AvgPool2d(2),
            nn.Conv2d(channels, 8, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 16, 4, stride=2),
            nn.ReLU(),
            nn.Flatten(),
        )
        with torch.no_grad():
            pixels = self.profile(torch.zeros(1, channels, height, width)).shape[1]
        flat = sum(spaces.flatdim(observation_space[key]) for key in FLAT)
        self.draw = nn.Sequential(nn.Linear(pixels, 64), nn.ReLU())
        self.rest = nn.Sequential(nn.Linear(flat, features_dim), nn.ReLU())
        self.join = nn.Sequential(nn.Linear(64 + features_dim, features_dim), nn.ReLU())

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Return features float32[B, features_dim]."""
        rest = torch.cat([observations[key].float().flatten(1) for key in FLAT], dim=1)
        picture = self.draw(self.profile(observations["profile"].float()))
        features: Tensor = self.join(torch.cat([picture, self.rest(rest)], dim=1))
        return features
