"""Noise on the reward, as real hardware has it."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from memplace_env.errors import EnvError


class MeasurementNoise(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Multiplies positive rewards by a log-normal factor of mean 1, drawn from the environment's own generator.

    EGRL learned from measurements on a chip; how noisy they were is not published, so `sigma` (standard deviation
    of the factor's logarithm) is the user's choice. Same reset seed, same noise; latencies in `info` stay exact.

    Raises:
        EnvError: if sigma is not in [0, 1].
    """

    def __init__(self, env: gym.Env[Any, Any], sigma: float = 0.02) -> None:
        RecordConstructorArgs.__init__(self, sigma=sigma)
        gym.Wrapper.__init__(self, env)
        if not 0 <= sigma <= 1:
            raise EnvError(f"sigma is a standard deviation in [0, 1], not {sigma}.")
        self.sigma = sigma

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the wrapped step, with a noisy reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if float(reward) > 0:
            factor = self.env.unwrapped.np_random.lognormal(-(self.sigma**2) / 2, self.sigma)
            reward = float(reward) * factor
        return observation, reward, terminated, truncated, info
