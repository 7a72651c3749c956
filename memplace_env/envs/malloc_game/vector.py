"""Many games at once, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env.envs.base import Observation, PlacementVectorEnv
from memplace_env.envs.malloc_game.env import MallocGameEnv, check_actions
from memplace_env.envs.malloc_game.observation import Observations, empty_observations


class MallocGameVectorEnv(PlacementVectorEnv[MallocGameEnv]):
    """`num_envs` games of `MallocGameEnv` in one; takes the same arguments.

    A game that ends begins anew in the same step (`AutoresetMode.SAME_STEP`).

    Args:
        num_envs: number of games.
        max_episode_steps: ignored; a game has a fixed length.
        copy: whether each step returns new arrays; with False they are overwritten by the next step, which saves
            the time to allocate them.
    """

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, copy: bool = True, **kwargs: Any) -> None:
        del max_episode_steps
        super().__init__(num_envs, MallocGameEnv(**kwargs))
        self.problem = self.env.problem
        self.states = self.problem.new_states(num_envs)
        self._reused = None if copy else empty_observations(num_envs)
        self._first = self.problem.observe(self.problem.new_states(1))
        self._profiles = np.repeat(self._first.profile, num_envs, axis=0)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all games; there is no randomness, so the seed changes nothing."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        seen = empty_observations(self.num_envs) if self._reused is None else self._reused
        self._begin(seen, np.ones(self.num_envs, dtype=bool))
        return seen._asdict(), _with_masks({"latency_s": self.problem.latency_s(self.states)})

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play one decision in every game.

        Returns:
            Observations, rewards float64[B], terminations, truncations (all False), and infos as arrays; where games
            ended, `final_obs` and `final_info` have their last ones.

        Raises:
            ActionError: if the actions have the wrong shape, dtype or range.
        """
        wanted = check_actions(actions, (self.num_envs,))
        gains, played, seen = self.problem.step(self.states, wanted, self._profiles, self._reused)
        over = self.problem.done(self.states)
        rewards, latency = self.problem.settle(self.states, gains, played)
        info = {"latency_s": latency, "played": played, "illegal": played != wanted}
        infos = {} if over.all() else _with_masks(info, ~over)
        if over.any():
            final = np.full(self.num_envs, None, dtype=object)
            for index in np.flatnonzero(over):
                final[index] = {key: value.copy() for key, value in seen.of(int(index)).items()}
            last = _with_masks({key: np.where(over, value, 0) for key, value in info.items()}, over)
            self._begin(seen, over)
            infos |= {"latency_s": self.problem.latency_s(self.states), "_latency_s": np.ones_like(over)}
            infos |= {"final_obs": final, "_final_obs": over, "final_info": last, "_final_info": over.copy()}
        return seen._asdict(), rewards, over, np.zeros_like(over), infos

    def action_masks(self) -> NDArray[np.bool_]:
        """bool[B, 3], legal actions of every game."""
        return self.problem.legal(self.states)

    def _begin(self, seen: Observations, which: NDArray[np.bool_]) -> None:
        """Begin games anew and put in their first observations."""
        self.states[which] = self.problem.first_state
        self._profiles[which] = self._first.profile
        arrays: list[NDArray[Any]] = list(seen)
        for array, first in zip(arrays, list(self._first), strict=True):
            array[which] = first


def _with_masks(info: dict[str, NDArray[Any]], present: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Gymnasium's form: an array for each key, and for `_key` the games that have it."""
    masks = {f"_{key}": np.ones(len(value), bool) if present is None else present.copy() for key, value in info.items()}
    return info | masks
