"""Base of the native vector environments that play different programs side by side."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode

from memplace_env.envs.many.drawn import Drawn
from memplace_env.envs.many.episode_rows import EpisodeRows
from memplace_env.envs.many.many_env import ManyProgramsEnv
from memplace_env.envs.many.setting import without_state
from memplace_env.envs.many.streams import Streams
from memplace_env.envs.native_vector import Bools, Info, PlacementVectorEnv, blank_info
from memplace_env.envs.placement_env import Observation, row_of
from memplace_env.program.program import Ints

ManyEnv = TypeVar("ManyEnv", bound=ManyProgramsEnv)


class ManyProgramsVectorEnv(PlacementVectorEnv[ManyEnv]):
    """`num_envs` episodes of different programs in one.

    Each episode draws its program from a stream of its own, seeded as Gymnasium's `SyncVectorEnv` seeds its
    environments, whenever it begins. Options of `reset` hold for the episodes that it begins.

    Args:
        num_envs: number of episodes.
        env: a single environment, whose arguments all have.
        autoreset_mode: see `PlacementVectorEnv`.
        bytes_each: memory that each episode takes beside its state.
        head: number of fields at the beginning of each state that `rows.heads` copies.

    Attributes:
        rows: the episodes, as kernels see them.
    """

    def __init__(
        self, num_envs: int, env: ManyEnv, autoreset_mode: AutoresetMode | str, bytes_each: int, head: int
    ) -> None:
        first = env.drawn(env.draws.first)
        state = env.first_of(first)
        super().__init__(num_envs, env, autoreset_mode, bytes_each + state.nbytes)
        self._streams = Streams(env.draws, self.num_envs)
        self.rows = EpisodeRows(self.num_envs, first, env.drawn, state, head)
        self._scale, self._backing_ps = np.ones(self.num_envs), np.ones(self.num_envs, dtype=np.int64)
        self._named = {key: blank_info(value, self.num_envs) for key, value in env.named.items()}
        self._allocate()
        for index in range(self.num_envs):
            self._turn_to(index, first)

    def _allocate(self) -> None:
        """Make the arrays that `_turn_to` writes to; `num_envs` is known by now."""

    @abstractmethod
    def _fill(self, which: Ints, observations: Observation) -> None:
        """Write observations of the episodes `which` into their rows, from the states alone."""

    def _turn_to(self, index: int, drawn: Drawn[Any]) -> None:
        """Begin an episode of a drawn problem in place of one."""
        self.rows.begin(index, drawn, self.env.first_of(drawn))
        self._scale[index], self._backing_ps[index] = drawn.scale(self.env.unit), drawn.backing_ps
        for key, value in self.env.names_of(drawn).items():
            self._named[key][index] = value

    def _seed(self, seeds: list[int | None], which: Bools, options: Mapping[str, Any]) -> None:
        self._streams.seed(seeds, which, options)

    def _checked_starts(self, state: Any, which: Bools) -> Any:
        return without_state({"state": state})

    def _begin(self, which: Bools, observations: Observation | None = None) -> None:
        # All are drawn and made before the first begins, so that a wrong option leaves everything as it was.
        drawn = {index: self.env.drawn(setting) for index, setting in self._streams.draw(which).items()}
        for index, problem in drawn.items():
            self._turn_to(index, problem)
        if observations is not None:
            self._fill(np.flatnonzero(which), observations)

    @abstractmethod
    def _first_info_of(self) -> Info:
        """Return the infos of first states that differ between programs, arrays of all episodes."""

    def _write_first_info(self, info: Info, which: Bools) -> None:
        super()._write_first_info(info, which)
        for key, values in self._first_info_of().items():
            info[key][which] = values[which]

    def _row(self, observations: Observation, index: int) -> Observation:
        return row_of(observations, index)

    def _names(self) -> Info:
        """Return the parts of infos that name what is played, as new arrays."""
        return {key: array.copy() for key, array in self._named.items()}
