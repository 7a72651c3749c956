"""A batch of episodes in steps, decided and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env.envs.native_vector import Bools, Info, PlacementVectorEnv, checked_starts
from memplace_env.envs.placement_env import Observation, row_of
from memplace_env.envs.steps.env import StepsEnv, check_levels
from memplace_env.envs.steps.observation import in_form
from memplace_env.program.program import Ints


class StepsVectorEnv(PlacementVectorEnv[StepsEnv]):
    """`num_envs` copies of `StepsEnv` in one; takes the same arguments, and `autoreset_mode`.

    All episodes of a program are equally long; those that end in the same step are compiled by one call.

    Args:
        num_envs: number of copies.
        max_episode_steps: ignored; an episode has a fixed length.
        autoreset_mode: see `PlacementVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **kwargs: Any,
    ) -> None:
        del max_episode_steps
        env = StepsEnv(**kwargs)
        self.problem = env.problem
        self._first_row = self.problem.observe(self.problem.new_states(1))[0]
        bytes_each = self.problem.tables.first_state.nbytes + self._first_row.nbytes
        super().__init__(num_envs, env, autoreset_mode, bytes_each)
        self.states = self.problem.new_states(self.num_envs)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the levels that have room for the next entry of every copy."""
        return self.problem.legal(self.states)

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        wanted = check_levels(actions, (self.num_envs,))
        gains, played, rows = self.problem.step(self.states, wanted)
        rewards, info = self.env.outcome(self.states, gains, played, wanted)
        return in_form(rows, self.env.flat), rewards, self.problem.done(self.states) & live, info

    def _begin(self, which: Bools, observations: Observation | None = None) -> None:
        self.states[which] = self.problem.tables.first_state
        if isinstance(observations, dict):
            for key, first in self._first_arrays().items():
                observations[key][which] = first
        elif observations is not None:
            observations[which] = self._first_row

    def _checked_starts(self, state: Any, which: Bools) -> Ints:
        return checked_starts(self.problem, state, which)

    def _begin_from(self, starts: Ints, which: Bools, info: Info) -> None:
        self.states[which] = starts[which]
        for key, values in self.env.first_info(self.states[which]).items():
            info[key][which] = values

    def _observe(self) -> Observation:
        return in_form(self.problem.observe(self.states), self.env.flat)

    def _row(self, observations: Observation, index: int) -> Observation:
        return row_of(observations, index)

    def _first_arrays(self) -> dict[str, NDArray[Any]]:
        arrays = in_form(self._first_row, flat=False)
        assert isinstance(arrays, dict)
        return arrays
