"""Only the decisions of a game that are decisions."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.errors import EnvError


class SkipForced(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Plays decisions with a single legal action itself; about half of all are of that kind.

    The rewards of skipped decisions are added to that of the step they follow, so the return stays the same. Those
    before the first real decision are played by `reset`, and their reward is in its info as `skipped_reward`. Info
    counts them as `skipped`.

    Raises:
        EnvError: if the environment is another one.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        if not isinstance(env.unwrapped, MallocGameEnv):
            raise EnvError(f"SkipForced wraps a MallocGame environment, not {env}.")
        self._game: MallocGameEnv = env.unwrapped

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game and go to its first real decision."""
        observation, info = self.env.reset(seed=seed, options=options)
        observation, reward, _, _, last, skipped = self._skip((observation, 0.0, False, False, info))
        return observation, {"latency_s": last["latency_s"], "skipped": skipped, "skipped_reward": reward}

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Play a decision and the forced ones after it."""
        result = self.env.step(action)
        played = {key: result[4][key] for key in ("played", "illegal")}
        observation, reward, terminated, truncated, info, skipped = self._skip(result)
        return observation, reward, terminated, truncated, {**info, **played, "skipped": skipped}

    def _skip(
        self, result: tuple[Any, Any, bool, bool, dict[str, Any]]
    ) -> tuple[Any, float, bool, bool, dict[str, Any], int]:
        observation, reward, terminated, truncated, info = result
        total, skipped = float(reward), 0
        while not terminated and len(forced := self._game.legal_actions()) == 1:
            observation, reward, terminated, truncated, info = self.env.step(forced[0])
            total += float(reward)
            skipped += 1
        return observation, total, terminated, truncated, info, skipped
