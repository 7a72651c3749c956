"""Gymnasium's native vector environments for Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from memplace_env._lib.errors import EnvError
from memplace_env.envs.batch.vector_env import PlacementVectorEnv
from memplace_env.envs.placement_env import each_array, row_of


class SB3VecEnv(VecEnv):
    """A Gymnasium `VectorEnv` as a Stable-Baselines3 `VecEnv`.

    Example:
        >>> venv = SB3VecEnv(gym.make_vec("MemPlace-ResNet50-v0", num_envs=256, observation="flat"))
        >>> PPO("MlpPolicy", venv, n_steps=4, batch_size=1024, n_epochs=4).learn(32_768)

    Args:
        env: a vector environment of this package in any mode, or another one in `AutoresetMode.SAME_STEP` or
            `DISABLED`. New episodes begin in the step that ends old ones, as Stable-Baselines3 has it.
        seed: seed of the first reset.

    Raises:
        EnvError: if the environment begins new episodes in another way.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: int | None = None) -> None:
        mode = env.metadata.get("autoreset_mode")
        if mode == AutoresetMode.NEXT_STEP and not isinstance(env.unwrapped, PlacementVectorEnv):
            raise EnvError(f"{env} resets in the next step; SB3VecEnv needs AutoresetMode.SAME_STEP or DISABLED.")
        self.env = env
        self.render_mode = env.render_mode
        self._seed: int | None = seed
        self._actions: NDArray[Any] | None = None
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Start all episodes."""
        observation, infos = self.env.reset(seed=self._seed)
        self._seed = None
        self.reset_infos = self._rows(infos)
        return each_array(np.array, observation)  # a copy: Stable-Baselines3 stores and changes arrays in place

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seed of the next reset."""
        self._seed = seed
        return [seed] * self.num_envs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Play the stored actions; ended episodes report `terminal_observation` and the info of their last step."""
        observation, rewards, terminations, truncations, infos = self.env.step(self._actions)
        rows = self._rows({key: value for key, value in infos.items() if key not in ("final_obs", "final_info")})
        done = terminations | truncations
        ended = np.flatnonzero(done).tolist()
        if ended:
            last, final = infos.get("final_obs"), rows
            if last is None:
                last = {index: row_of(observation, index) for index in ended}
                observation, _ = self.env.reset(options={"reset_mask": done})
            else:
                final = self._rows(infos["final_info"])
            for index in ended:
                rows[index] |= final[index]
                rows[index]["terminal_observation"] = last[index]
                rows[index]["TimeLimit.truncated"] = bool(truncations[index] and not terminations[index])
        return each_array(np.array, observation), rewards.astype(np.float32), done, rows

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return the wrapped environment's attribute, once for each index."""
        return [getattr(self._member(), attr_name)] * len(self._indices(indices))

    def has_attr(self, attr_name: str) -> bool:
        """Return whether the wrapped environment has the attribute."""
        return hasattr(self._member(), attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refuse, since the members are rows of one environment.

        Raises:
            EnvError: always.
        """
        raise EnvError(f"SB3VecEnv cannot set {attr_name!r}: its members are rows of one environment.")

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **kwargs: Any) -> list[Any]:
        """Call a method (such as `action_masks`, for MaskablePPO) of the vector environment, else of its single one."""
        rows = self._indices(indices)
        method = getattr(self.env.unwrapped, method_name, None)
        if method is not None:
            values = method(*args, **kwargs)
            return [values[index] for index in rows]
        return [getattr(self._member(), method_name)(*args, **kwargs) for _ in rows]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        """Return False for each index: rows have no wrappers of their own."""
        return [False] * len(self._indices(indices))

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """Return no pictures: a vector environment has none; render the plan of a single one."""
        return [None] * self.num_envs

    def _member(self) -> Any:
        return getattr(self.env.unwrapped, "env", self.env.unwrapped)

    def _indices(self, indices: VecEnvIndices) -> Sequence[int]:
        return list(self._get_indices(indices))

    def _rows(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        """Return Gymnasium's arrays with `_key` masks as one dictionary for each row."""
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for key, values in infos.items():
            if key.startswith("_") or f"_{key}" not in infos:
                continue
            for index in np.flatnonzero(infos[f"_{key}"]):
                value = values[index]
                rows[index][key] = value.item() if isinstance(value, np.generic) else value
        return rows
