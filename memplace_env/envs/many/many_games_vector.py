"""A batch of games of different programs, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.threads import in_chunks
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game.env import check_actions
from memplace_env.envs.malloc_game.observation import Observations
from memplace_env.envs.malloc_game.occupancy import empty_profiles
from memplace_env.envs.malloc_game.problem import Seen, part_of
from memplace_env.envs.malloc_game.state import ESTIMATE, HEAD, MASK, USE
from memplace_env.envs.malloc_game.vector import empty_seen, form_of
from memplace_env.envs.many.game_rows import observe_games, step_games
from memplace_env.envs.many.many_games import MallocGameManyEnv
from memplace_env.envs.many.many_vector import ManyProgramsVectorEnv
from memplace_env.envs.native_vector import Bools, Info
from memplace_env.envs.placement_env import Observation
from memplace_env.program.program import Ints


class MallocGameManyVectorEnv(ManyProgramsVectorEnv[MallocGameManyEnv]):
    """`num_envs` games of `MallocGameManyEnv` in one; takes the same arguments, and those below.

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
        each = sum(array.nbytes for array in (*empty_seen(1, env.flat), empty_profiles(1, env.flat)))
        super().__init__(num_envs, env, autoreset_mode, each, HEAD)
        self._reused = None if copy else empty_seen(self.num_envs, env.flat)
        self._profiles = empty_profiles(self.num_envs, env.flat)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal actions of every game."""
        return (self.rows.heads[:, MASK, None] >> np.arange(3) & 1).astype(bool)

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        wanted, seen, rows = check_actions(actions, (self.num_envs,)), self._seen(), self.rows
        moves = np.empty((3, self.num_envs), dtype=np.int64)

        def chunk(a: int, b: int) -> None:
            move = wanted[a:b], moves[:, a:b], self.env.skip_forced, self._profiles[a:b], rows.heads[a:b]
            step_games(*rows.like, *rows.part(a, b), *move, part_of(seen, a, b))

        in_chunks(chunk, self.num_envs)
        gains, played, skipped = moves
        info = {**self._state_info(), "played": played, "illegal": played != wanted}
        if self.env.skip_forced:
            info["skipped"] = skipped
        over = (rows.heads[:, MASK] == 0) & live
        return form_of(seen), self._scale * (gains / self._backing_ps), over, info

    def _observe(self) -> Observation:
        observations = form_of(self._seen())
        self._fill(np.arange(self.num_envs), observations)
        return observations

    def _fill(self, which: Ints, observations: Observation) -> None:
        seen = Observations(**observations) if isinstance(observations, dict) else observations
        observe_games(*self.rows.like, *self.rows.matrices, which, self._profiles, seen)

    def _state_info(self) -> Info:
        return {"latency_s": self.rows.heads[:, ESTIMATE].astype(np.float64) * PS, **self._names()}

    def _first_info_of(self) -> Info:
        skipped = {"skipped": self.rows.heads[:, USE]} if self.env.skip_forced else {}
        return {**self._state_info(), **skipped}

    def _seen(self) -> Seen:
        return empty_seen(self.num_envs, self.env.flat) if self._reused is None else self._reused
