"""A batch of one-shot environments, whose assignments one call compiles and times on all cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import EnvError
from memplace_env.envs.arguments import NO_STATE
from memplace_env.envs.batch.vector_env import Bools, Info, PlacementVectorEnv
from memplace_env.envs.one_shot.env import OneShotEnv, step_info
from memplace_env.envs.placement_env import Observation, each_array
from memplace_env.program.program import Ints


class OneShotVectorEnv(PlacementVectorEnv[OneShotEnv]):
    """`num_envs` copies of `OneShotEnv` in one; takes the same arguments, and `autoreset_mode`.

    Every step ends every episode, so with the default `NEXT_STEP` every second step evaluates nothing; with `SAME_STEP`
    each step evaluates its assignments.

    The observation never changes: the arrays of a Dict are read-only views that all rows share, and nothing is copied.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **kwargs: Any,
    ) -> None:
        del max_episode_steps  # an episode has one step
        env = OneShotEnv(**kwargs)
        fixed = env.fixed_observation
        observation_bytes = fixed.nbytes if isinstance(fixed, np.ndarray) else 0
        assignment_bytes = env.problem.num_decisions * np.dtype(np.int64).itemsize
        super().__init__(num_envs, env, autoreset_mode, observation_bytes + assignment_bytes)
        self.problem = env.problem

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        assignments = self.problem.check(actions, (self.num_envs,))
        rewards = np.zeros(self.num_envs)
        info = {key: np.full(self.num_envs, value) for key, value in self._first_info.items()}
        if live.any():
            rewards[live], scores = self.env.score(assignments if live.all() else assignments[live])
            for key, values in step_info(self.problem, scores).items():
                info[key][live] = values
        return self._observe(), rewards, live.copy(), info

    def _begin(self, which: Bools, options: Mapping[str, Any], seeds: Sequence[int | None]) -> Info:
        if options.get("state") is not None:
            raise EnvError(NO_STATE)
        return {}

    def _show(self, which: Ints, observations: Observation) -> None:
        """Do nothing: the observation never changes."""

    def _observe(self) -> Observation:
        fixed, count = self.env.fixed_observation, self.num_envs
        if isinstance(fixed, dict):
            return each_array(lambda array: np.broadcast_to(array, (count, *array.shape)), fixed)
        return np.repeat(fixed[None], count, axis=0)

    def _row(self, observations: Observation, index: int) -> Observation:
        return self.env.fixed_observation
