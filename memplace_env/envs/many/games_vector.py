"""A batch of games of different programs, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.env import check_actions
from memplace_env.envs.malloc_game.observation import Observations
from memplace_env.envs.malloc_game.occupancy import empty_profiles
from memplace_env.envs.malloc_game.problem import Seen
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, USE
from memplace_env.envs.malloc_game.vector import empty_seen, form_of
from memplace_env.envs.many.game_rows import GameRows
from memplace_env.envs.many.games import DrawnGame, MallocGameManyEnv, drawn_game
from memplace_env.envs.many.setting import without_state
from memplace_env.envs.many.streams import Streams
from memplace_env.envs.native_vector import Bools, Info, PlacementVectorEnv, blank_info
from memplace_env.envs.placement_env import Observation, row_of
from memplace_env.program.program import Ints


class MallocGameManyVectorEnv(PlacementVectorEnv[MallocGameManyEnv]):
    """`num_envs` games of `MallocGameManyEnv` in one; takes the same arguments, and those below.

    Each game draws its program from a stream of its own, seeded as Gymnasium's `SyncVectorEnv` seeds its environments,
    whenever it begins; programs are played side by side by one call. Options of `reset` hold for the games that it
    begins.

    Args:
        num_envs: number of games.
        max_episode_steps: ignored; a game has a fixed length.
        autoreset_mode: see `PlacementVectorEnv`.
        copy: whether each step returns new arrays; with False they are overwritten by the next step.
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
        env = MallocGameManyEnv(**kwargs)
        first = drawn_game(env.draws.first)
        seen = empty_seen(1, env.flat)
        seen_bytes = sum(array.nbytes for array in seen)
        super().__init__(num_envs, env, autoreset_mode, first.problem.first_state.nbytes + seen_bytes)
        self._reused = None if copy else empty_seen(self.num_envs, env.flat)
        self._profiles = empty_profiles(self.num_envs, env.flat)
        self._streams = Streams(env.draws, self.num_envs)
        self._rows = GameRows(self.num_envs, first.problem)
        self._backing_ps, self._scale = np.ones((2, self.num_envs))
        self._named = {key: blank_info(value, self.num_envs) for key, value in env.named.items()}
        for index in range(self.num_envs):
            self._turn_to(index, first)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal actions of every game."""
        return (self._rows.heads[:, MASK, None] >> np.arange(3) & 1).astype(bool)

    def _seed(self, seeds: list[int | None], which: Bools, options: Mapping[str, Any]) -> None:
        self._streams.seed(seeds, which, options)

    def _checked_starts(self, state: Any, which: Bools) -> Any:
        return without_state({"state": state})

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        wanted = check_actions(actions, (self.num_envs,)).astype(np.int64)
        seen = self._seen()
        gains, played, skipped = self._rows.step(wanted, self._profiles, seen, self.env.skip_forced)
        info = {"latency_s": self._latency_s(), "played": played, "illegal": played != wanted}
        if self.env.skip_forced:
            info["skipped"] = skipped
        info |= {key: array.copy() for key, array in self._named.items()}
        over = (self._rows.heads[:, MASK] == 0) & live
        return form_of(seen), self._scale * (gains / self._backing_ps), over, info

    def _begin(self, which: Bools, observations: Observation | None = None) -> None:
        # All are drawn and made before the first begins, so that a wrong option leaves everything as it was.
        drawn = {index: drawn_game(setting) for index, setting in self._streams.draw(which).items()}
        for index, game in drawn.items():
            self._turn_to(index, game)
        if observations is not None:
            self._fill(np.flatnonzero(which), observations)

    def _observe(self) -> Observation:
        observations = form_of(self._seen())
        self._fill(np.arange(self.num_envs), observations)
        return observations

    def _fill(self, which: Ints, observations: Observation) -> None:
        """Write observations of the games `which` into their rows, from the states alone."""
        seen = Observations(**observations) if isinstance(observations, dict) else observations
        self._rows.observe(which, self._profiles, seen)

    def _row(self, observations: Observation, index: int) -> Observation:
        return row_of(observations, index)

    def _write_first_info(self, info: Info, which: Bools) -> None:
        super()._write_first_info(info, which)
        first = {"latency_s": self._latency_s(), **self._named}
        if self.env.skip_forced:
            first["skipped"] = self._rows.heads[:, USE]
        for key, values in first.items():
            info[key][which] = values[which]

    def _latency_s(self) -> NDArray[np.float64]:
        return self._rows.heads[:, ESTIMATE].astype(np.float64) * PS

    def _seen(self) -> Seen:
        return empty_seen(self.num_envs, self.env.flat) if self._reused is None else self._reused

    def _turn_to(self, index: int, game: DrawnGame) -> None:
        first = game.problem.first_choice if self.env.skip_forced else game.problem.first_state
        self._rows.begin(index, game.problem, game.rows, first)
        self._backing_ps[index], self._scale[index] = game.problem.all_backing_ps, game.scale[self.env.reward]
        for key, value in self.env.info_of(game).items():
            self._named[key][index] = value
