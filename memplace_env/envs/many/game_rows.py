"""Games of different programs side by side: rows of addresses that one call of a kernel follows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.array_rows import row_of, viewed
from memplace_env._lib.kernel import kernel
from memplace_env._lib.threads import in_chunks
from memplace_env.envs.malloc_game.occupancy import draw_profiles
from memplace_env.envs.malloc_game.problem import MallocGameProblem, Seen, part_of
from memplace_env.envs.malloc_game.state import HEAD
from memplace_env.envs.malloc_game.step import observe_state, step_state
from memplace_env.program.program import Ints


class GameState(NamedTuple):
    """One state as a batch, int64[1, size]."""

    states: Ints


def rows_of(problem: MallocGameProblem) -> tuple[Ints, Ints, Ints]:
    """Return the rows of a game's tables, layout and unchanging parts of observations; the game keeps the arrays."""
    return row_of(problem.tables), row_of(problem.layout), row_of(problem._unchanging)


class GameRows:
    """Games of `count` problems, each with a state of its own length.

    Attributes:
        heads: int64[count, HEAD], the first fields of all states, as of the last step or beginning.
    """

    def __init__(self, count: int, problem: MallocGameProblem) -> None:
        self.heads = np.zeros((count, HEAD), dtype=np.int64)
        self._like = problem.tables, problem.layout, problem._unchanging, GameState(problem.new_states(1))
        widths = [len(row) for row in (*rows_of(problem), row_of(self._like[-1]))]
        self._rows = tuple(np.zeros((count, width), dtype=np.int64) for width in widths)
        self._games: list[tuple[MallocGameProblem, Ints]] = [(problem, problem.new_states(1))] * count

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the games alone: addresses mean nothing in another process."""
        return {"games": self._games}

    def __setstate__(self, state: dict[str, Any]) -> None:
        games = state["games"]
        self.__init__(len(games), games[0][0])  # type: ignore[misc]
        for index, (problem, states) in enumerate(games):
            self._put(index, problem, rows_of(problem), states)

    def begin(self, index: int, problem: MallocGameProblem, rows: tuple[Ints, ...], first: Ints) -> None:
        """Begin a game of a problem, whose `rows_of` are given, from a state in place of the one with that index."""
        self._put(index, problem, rows, first[None].copy())

    def _put(self, index: int, problem: MallocGameProblem, rows: tuple[Ints, ...], states: Ints) -> None:
        self._games[index] = problem, states
        for matrix, row in zip(self._rows, (*rows, row_of(GameState(states))), strict=True):
            matrix[index] = row
        self.heads[index] = states[0, :HEAD]

    def step(self, actions: Ints, profiles: NDArray[Any], into: Seen, skip_forced: bool) -> Ints:
        """Play an action in each game and observe; see `MallocGameProblem.step`, also for what is returned."""
        moves = np.empty((3, len(actions)), dtype=np.int64)

        def chunk(a: int, b: int) -> None:
            rows = [matrix[a:b] for matrix in self._rows]
            move = actions[a:b], moves[:, a:b], skip_forced, profiles[a:b], self.heads[a:b]
            _step_many(*self._like, *rows, *move, part_of(into, a, b))

        in_chunks(chunk, len(actions))
        return moves

    def observe(self, which: Ints, profiles: NDArray[Any], into: Seen) -> None:
        """Draw the profiles and fill in the observations of the games `which`, int64[n], in rows of both."""
        _observe_many(*self._like, *self._rows, which, profiles, into)


@kernel
def _step_many(
    tables, layout, unchanging, game, table_rows, layout_rows, unchanging_rows, state_rows,
    actions, moves, skip_forced, profiles, heads, into,
):  # fmt: skip
    """Play one decision in each game and observe; the first four give types alone, the rows what is played."""
    for index in range(len(actions)):
        state, profile = viewed(game, state_rows[index]).states[0], profiles[index]
        own, at = viewed(tables, table_rows[index]), viewed(layout, layout_rows[index])
        moves[:, index] = step_state(own, at, state, actions[index], skip_forced, profile)
        observe_state(own, at, state, viewed(unchanging, unchanging_rows[index]), profile, into, index)
        # Masks, estimates and whether a game is over are read from the heads, for all games at once.
        heads[index] = state[:HEAD]


@kernel
def _observe_many(
    tables, layout, unchanging, game, table_rows, layout_rows, unchanging_rows, state_rows, which, profiles, into
):
    """Observe the games `which` from their states alone."""
    for index in which:
        states = viewed(game, state_rows[index]).states
        own, at = viewed(tables, table_rows[index]), viewed(layout, layout_rows[index])
        draw_profiles(own, at, states, profiles[index : index + 1])
        observe_state(own, at, states[0], viewed(unchanging, unchanging_rows[index]), profiles[index], into, index)
