"""Games side by side, of one program or of many, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.threads import in_chunks
from memplace_env.envs.batch.batch import Batch
from memplace_env.envs.malloc_game import state as fields
from memplace_env.envs.malloc_game.flat import empty_flat
from memplace_env.envs.malloc_game.observation import Observations, empty_observations
from memplace_env.envs.malloc_game.occupancy import draw_profiles, empty_profiles
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.step import observe_all, step_all
from memplace_env.program.program import Ints

Seen = Observations | NDArray[np.float32]
"""Observations of a batch, as the arrays of a Dict or flat."""


class Moves(NamedTuple):
    """One decision in each of B games.

    Attributes:
        gains: int64[B], picoseconds by which it lowered the estimated latency, the forced ones after it included.
        played: int64[B], the actions played; -1 in finished games.
        skipped: int64[B], how many forced decisions were played after it.
    """

    gains: Ints
    played: Ints
    skipped: Ints


class GameBatch(Batch[MallocGameProblem]):
    """B games of mallocGame.

    Args:
        problems, states: as for `Batch`.
        flat: whether observations are float32[B, 546] instead of the arrays of a Dict.

    Attributes:
        profiles: the games' profiles, see `occupancy`: coarse ones if `flat`, else fine ones.
    """

    HEAD, MASK, ESTIMATE = fields.HEAD, fields.MASK, fields.ESTIMATE

    def __init__(self, problems: Sequence[MallocGameProblem], states: Sequence[Ints], flat: bool) -> None:
        super().__init__(problems, states)
        self.flat, self.profiles = flat, empty_profiles(len(states), flat)
        self._draw_profiles(np.arange(len(states)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as `Batch` does; the copy draws its profiles anew."""
        return GameBatch, (self.problems, self.states, self.flat)

    def fork(self) -> Self:
        """Return an independent copy; what is never changed is shared."""
        other = super().fork()
        other.profiles = self.profiles.copy()
        return other

    @property
    def nbytes(self) -> int:
        """Bytes that states, heads and profiles take."""
        return super().nbytes + self.profiles.nbytes

    def begin(self, which: Sequence[int] | Ints, problems: Sequence[MallocGameProblem], states: Sequence[Ints]) -> None:
        """Let the games `which` go on from copies of these states of these problems."""
        super().begin(which, problems, states)
        self._draw_profiles(np.asarray(which))

    def _draw_profiles(self, which: Ints) -> None:
        tables, layout, _, states = self.parts
        in_chunks(partial(draw_profiles, tables, layout, states, which, self.profiles), len(which))

    def step(self, actions: NDArray[np.integer], into: Seen, skip_forced: bool = False) -> Moves:
        """Play one decision in each game, and fill `into` with the observations after it.

        Args:
            actions: int[B]; an illegal one is replaced as by `MallocGameProblem.play`.
            into: of B games, see `empty`.
            skip_forced: whether to go on with the decisions that have a single legal action.
        """
        count, actions = len(self.states), np.ascontiguousarray(actions, dtype=np.int64)
        moves = np.empty((3, count), dtype=np.int64)
        in_chunks(partial(step_all, *self.parts, actions, skip_forced, moves, self.heads, self.profiles, into), count)
        return Moves(*moves)

    def observe(self, which: Ints | None = None, into: Seen | None = None) -> Any:
        """Return the observations `Seen` of the games `which` int64[n], or of all, in `into` if that is given."""
        rows = np.arange(len(self)) if which is None else which
        seen = self.empty(len(rows)) if into is None else into
        in_chunks(partial(observe_all, *self.parts, rows, self.profiles, seen), len(rows))
        return seen

    def empty(self, count: int) -> Any:
        """Return uninitialised observations `Seen` of `count` games."""
        return empty_flat(count) if self.flat else empty_observations(count)

    def settle(self, moves: Moves) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what moves save, and latencies after them.

        A move saves what it lowers the estimated latency by, as a fraction of the latency with everything in the
        backing memory. With a black box, the last move of a game also saves the difference to the black box's latency,
        so that the sum is 1 - latency / latency(all backing) by the black box.

        Returns:
            Fractions float64[B]; latencies in seconds float64[B], of games that just ended by the black box if any.
        """
        saved, latency_s = moves.gains / self.all_backing_ps, self.latency_s()
        if not self.has_black_box:
            return saved, latency_s
        ended = np.flatnonzero(self.done() & (moves.played >= 0))
        for problem, same in self.by_problem(ended).items():
            if problem.task.is_black_box:
                states = self.stacked(np.array(same))
                latency_s[same] = problem.final_latency_s(states)
                saved[same] += problem.return_correction(states, latency_s[same])
        return saved, latency_s
