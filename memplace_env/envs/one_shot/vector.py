"""Many one-shot maps at once, compiled and timed by one call on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env.envs.base import Observation, PlacementVectorEnv
from memplace_env.envs.one_shot.env import OneShotEnv, reset_info, step_info


class OneShotVectorEnv(PlacementVectorEnv[OneShotEnv]):
    """`num_envs` copies of `OneShotEnv` in one; takes the same arguments.

    Every step ends every episode, and the next one begins in the same step (`AutoresetMode.SAME_STEP`). The
    observation never changes, so observations are read-only views that all rows share: nothing is copied.
    """

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, **kwargs: Any) -> None:
        del max_episode_steps  # an episode has one step
        super().__init__(num_envs, OneShotEnv(**kwargs))
        self.problem = self.env.problem
        self._all = np.ones(num_envs, dtype=bool)
        single = self.env._static
        self._observation = {key: np.broadcast_to(value, (num_envs, *value.shape)) for key, value in single.items()}
        self._final = np.empty(num_envs, dtype=object)
        self._final.fill(single)

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
