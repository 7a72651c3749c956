"""Noise on measured latencies, as real hardware has it."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from memplace_env._lib.errors import EnvError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.placement_env import PlacementEnv
from memplace_env.envs.steps import StepsEnv
from memplace_env.placement.compiler import all_backing_report


def noise_factors(rng: np.random.Generator, scale: float, count: int) -> NDArray[np.float64]:
    """Return float64[count], log-normal factors on latencies, of mean 1 and standard deviation `scale`.

    Log-normal, since a latency is positive and its disturbances are proportional to it; our choice. One call draws the
    same factors as several calls for fewer.
    """
    spread = np.sqrt(np.log1p(scale**2))
    factors: NDArray[np.float64] = np.exp(spread * rng.standard_normal(count) - spread**2 / 2)
    return factors


class MeasurementNoise(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Measure the latency of a finished plan with noise, drawn from the environment's own generator.

    The plan does not change, only its latency. In `info`, `latency_s` and `speedup` carry the noise, and so does the
    reward: in one-shot environments it is the reward function's; in steps and in mallocGame, where only the end of an
    episode is measured, the last reward takes the difference, so that the return is that of the measured latency.
    Same reset seed, same noise. EGRL learned from measurements on a chip; how noisy they were is not published. Agents
    measure an environment in this wrapper with the same noise, see `memplace_agents.search.evaluator`.

    Args:
        env: an environment of any formulation.
        scale: standard deviation of a measurement, as a fraction of the latency.

    Raises:
        EnvError: if scale is not in [0, 1], or the environment is another one or noisy already.
    """

    def __init__(self, env: gym.Env[Any, Any], scale: float = 0.05) -> None:
        RecordConstructorArgs.__init__(self, scale=scale)
        gym.Wrapper.__init__(self, env)
        if not 0 <= scale <= 1:
            raise EnvError(f"Measurement noise is a relative standard deviation; pass 0 to 1, not {scale}.")
        if not isinstance(env.unwrapped, PlacementEnv):
            raise EnvError(f"MeasurementNoise wraps a MemPlace or MallocGame environment, not {env}.")
        if env.has_wrapper_attr("measurement_noise"):
            raise EnvError(f"{env} is measured with noise already; wrap it once.")
        self.measurement_noise = scale

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a step, and measure the plan with noise if the episode ends."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated and self.measurement_noise:
            core = self.env.unwrapped
            factor = noise_factors(core.np_random, self.measurement_noise, 1).item()
            exact_s = info["latency_s"]
            info = info | {"latency_s": exact_s * factor}
            if isinstance(core, OneShotEnv | StepsEnv):
                info["speedup"] /= factor
                reward = float(reward) + core.reward_change(factor)
            else:
                baseline_s = all_backing_report(self.get_wrapper_attr("task")).latency_s
                scale = self.get_wrapper_attr("scale")
                reward = float(reward) + scale * (1 - factor) * exact_s / baseline_s
        return observation, reward, terminated, truncated, info
