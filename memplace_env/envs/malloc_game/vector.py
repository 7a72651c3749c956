"""A batch of games, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env.envs.malloc_game.env import MallocGameEnv, check_actions
from memplace_env.envs.malloc_game.flat import empty_flat
from memplace_env.envs.malloc_game.observation import Observations, empty_observations
from memplace_env.envs.malloc_game.problem import Seen
from memplace_env.envs.malloc_game.state import USE
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
        self.problem = env.problem
        first = env.first_state[None].copy()
        self._first = form_of(self.problem.observe_flat(first) if env.flat else self.problem.observe(first))
        self._first_profile = self.problem.profiles(first, env.flat)
        arrays = [env.first_state, self._first_profile, *_arrays(self._first)]
        super().__init__(num_envs, env, autoreset_mode, sum(array.nbytes for array in arrays))
        self.states = np.repeat(env.first_state[None], self.num_envs, axis=0)
        self._profiles = np.repeat(self._first_profile, self.num_envs, axis=0)
        self._reused = None if copy else empty_seen(self.num_envs, self.env.flat)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal actions of every game."""
        return self.problem.legal(self.states)

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        wanted = check_actions(actions, (self.num_envs,))
        seen = empty_seen(self.num_envs, self.env.flat) if self._reused is None else self._reused
        gains, played, skipped = self.problem.step(self.states, wanted, self._profiles, seen, self.env.skip_forced)
        fractions, latency = self.problem.settle(self.states, gains, played)
        info = {"latency_s": latency, "played": played, "illegal": played != wanted}
        if self.env.skip_forced:
            info["skipped"] = skipped
        return form_of(seen), self.env.reward_scale * fractions, self.problem.done(self.states) & live, info

    def _begin(self, which: Bools, observations: Observation | None = None) -> None:
        self.states[which] = self.env.first_state
        self._profiles[which] = self._first_profile
        if observations is not None:
            for array, first in zip(_arrays(observations), _arrays(self._first), strict=True):
                array[which] = first

    def _checked_starts(self, state: Any, which: Bools) -> Ints:
        return checked_starts(self.problem, state, which)

    def _begin_from(self, starts: Ints, which: Bools, info: Info) -> None:
        for index in np.flatnonzero(which):
            start = self.problem.without_forced(starts[index]) if self.env.skip_forced else starts[index]
            if self.env.skip_forced:
                info["skipped"][index] = start[USE] - starts[index, USE]
            self.states[index] = start
        self._profiles[which] = self.problem.profiles(self.states[which], self.env.flat)
        info["latency_s"][which] = self.problem.latency_s(self.states[which])

    def _observe(self) -> Observation:
        seen = empty_seen(self.num_envs, self.env.flat) if self._reused is None else self._reused
        if isinstance(seen, Observations):
            return form_of(self.problem.observe(self.states, seen))
        return self.problem.observe_flat(self.states, seen)

    def _row(self, observations: Observation, index: int) -> Observation:
        return row_of(observations, index)


def empty_seen(count: int, flat: bool) -> Seen:
    """Return uninitialised observations of `count` games."""
    return empty_flat(count) if flat else empty_observations(count)


def form_of(seen: Seen) -> Observation:
    """Return observations in the form that Gymnasium takes."""
    return seen._asdict() if isinstance(seen, Observations) else seen


def _arrays(observations: Observation) -> list[NDArray[Any]]:
    return list(observations.values()) if isinstance(observations, dict) else [observations]
