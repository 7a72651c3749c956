"""A batch of games, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env.envs.malloc_game.env import MallocGameEnv, check_actions
from memplace_env.envs.malloc_game.flat import empty_flat, flatten
from memplace_env.envs.malloc_game.observation import Observations, empty_observations
from memplace_env.envs.native_vector import Bools, Info, PlacementVectorEnv, checked_starts
from memplace_env.envs.placement_env import Observation, row_of
from memplace_env.program.program import Ints


class MallocGameVectorEnv(PlacementVectorEnv[MallocGameEnv]):
    """`num_envs` games of `MallocGameEnv` in one; takes the same arguments, and those below.

    Args:
        num_envs: number of games.
        max_episode_steps: ignored; a game has a fixed length.
        autoreset_mode: see `PlacementVectorEnv`.
        copy: whether each step returns new arrays; with False they are overwritten by the next step, which saves
            the time to allocate them.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **kwargs: Any,
    ) -> None:
        del max_episode_steps
        env = MallocGameEnv(**kwargs)
        first = env.problem.observe(env.problem.new_states(1))
        bytes_each = env.problem.first_state.nbytes + first.profile.nbytes + sum(array.nbytes for array in first)
        super().__init__(num_envs, env, autoreset_mode, bytes_each)
        self.problem = env.problem
        self.states = self.problem.new_states(self.num_envs)
        flat = self.env.flat
        self._observations = empty_observations(self.num_envs) if flat or not copy else None
        self._flat = empty_flat(self.num_envs) if flat and not copy else None
        self._first: Observation = flatten(first) if flat else first._asdict()
        self._first_profile = first.profile
        self._profiles = np.repeat(first.profile, self.num_envs, axis=0)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal actions of every game."""
        return self.problem.legal(self.states)

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        wanted = check_actions(actions, (self.num_envs,))
        gains, played, observations = self.problem.step(self.states, wanted, self._profiles, self._observations)
        fractions, latency = self.problem.settle(self.states, gains, played)
        info = {"latency_s": latency, "played": played, "illegal": played != wanted}
        return self._form(observations), self.env.reward_scale * fractions, self.problem.done(self.states) & live, info

    def _begin(self, which: Bools, observations: Observation | None = None) -> None:
        self.states[which] = self.problem.first_state
        self._profiles[which] = self._first_profile
        if observations is not None:
            for array, first in zip(_arrays(observations), _arrays(self._first), strict=True):
                array[which] = first

    def _checked_starts(self, state: Any, which: Bools) -> Ints:
        return checked_starts(self.problem, state, which)

    def _begin_from(self, starts: Ints, which: Bools, info: Info) -> None:
        self.states[which] = starts[which]
        self._profiles[which] = self.problem.observe(self.states[which]).profile
        info["latency_s"][which] = self.problem.latency_s(self.states[which])

    def _observe(self) -> Observation:
        return self._form(self.problem.observe(self.states, self._observations))

    def _row(self, observations: Observation, index: int) -> Observation:
        return row_of(observations, index)

    def _form(self, observations: Observations) -> Observation:
        """Return the observations in this environment's form; with `copy=False` in the arrays of the step before."""
        return flatten(observations, self._flat) if self.env.flat else observations._asdict()


def _arrays(observations: Observation) -> list[NDArray[Any]]:
    return list(observations.values()) if isinstance(observations, dict) else [observations]
