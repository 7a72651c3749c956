"""Many one-shot maps at once, compiled and timed by one call on all cores."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from memplace_env.envs.base import Observation
from memplace_env.envs.one_shot.env import OneShotEnv, reset_info, step_info


class OneShotVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """`num_envs` copies of `OneShotEnv` in one; takes the same arguments.

    Every step ends every episode, and the next one begins in the same step (`AutoresetMode.SAME_STEP`). The
    observation never changes, so observations are read-only views that all rows share: nothing is copied.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> None:
        del max_episode_steps  # an episode has one step
        self.num_envs = num_envs
        self.env = OneShotEnv(**kwargs)
        self.problem = self.env.problem
        self.single_observation_space = self.env.observation_space
        self.single_action_space = self.env.action_space
        self._all = np.ones(num_envs, dtype=bool)
        single = self.env._static
        self._observation = {key: np.broadcast_to(value, (num_envs, *value.shape)) for key, value in single.items()}
        self._final = np.empty(num_envs, dtype=object)
        self._final.fill(single)

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Batched space; made on demand, since its bounds alone take as much memory as the observations."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Batched space, made on demand."""
        return batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start over; there is no randomness, so the seed changes nothing."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        return dict(self._observation), self._reset_info()

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Compile and time `num_envs` maps.

        Returns:
            Observations, rewards float64[B], terminations (all True), truncations (all False), and infos with the
            `final_info` of `OneShotEnv.step` as arrays.

        Raises:
            ActionError: if the actions have the wrong shape, dtype or range.
        """
        maps = self.problem.check(actions, (self.num_envs,))
        rewards, scores = self.env.score(maps)
        infos = self._reset_info()
        infos |= {"final_obs": self._final, "_final_obs": self._all.copy()}
        infos |= {"final_info": self._rows(step_info(scores)), "_final_info": self._all.copy()}
        return dict(self._observation), rewards, self._all.copy(), np.zeros(self.num_envs, dtype=bool), infos

    def _reset_info(self) -> dict[str, Any]:
        return self._rows({key: np.full(self.num_envs, value) for key, value in reset_info(self.problem).items()})

    def _rows(self, info: dict[str, NDArray[Any]]) -> dict[str, Any]:
        return info | {f"_{key}": self._all.copy() for key in info}
