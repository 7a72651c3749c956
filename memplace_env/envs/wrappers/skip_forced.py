"""Games without the decisions that have one legal action."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from memplace_env._lib.errors import EnvError
from memplace_env.envs.malloc_game import MallocGameEnv


class SkipForced(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Play decisions with a single legal action automatically; about half of all are of that kind.

    The rewards of skipped decisions are added to that of the step before them, so that the return is the same; `reset`
    plays those before the first real decision. Info counts them as `skipped` and has their part of the reward as
    `skipped_reward`; the rest of it is about the decision that was not skipped.

    Raises:
        EnvError: if the environment is no MallocGame environment.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, MallocGameEnv):
            raise EnvError(f"SkipForced wraps a MallocGame environment, not {env}.")
        self._game: MallocGameEnv = env.unwrapped

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game and play up to its first real decision."""
        observation, info = self.env.reset(seed=seed, options=options)
        observation, _, _, _, info = self._skip((observation, 0.0, False, False, info))
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play a decision and the forced ones after it."""
        return self._skip(self.env.step(action))

    def _skip(
        self, result: tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]
    ) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = result
        total, skipped, latest = 0.0, 0, info
        while not terminated and len(forced := self._game.legal_actions()) == 1:
            observation, gain, terminated, truncated, latest = self.env.step(forced[0])
            total += float(gain)
            skipped += 1
        info = {**info, "latency_s": latest["latency_s"], "skipped": skipped, "skipped_reward": total}
        return observation, float(reward) + total, terminated, truncated, info
