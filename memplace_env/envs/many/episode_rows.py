"""Episodes of different programs side by side, as rows of addresses that one call of a kernel follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from memplace_env._lib.array_rows import row_of
from memplace_env.envs.many.drawn import Drawn
from memplace_env.envs.many.setting import Setting
from memplace_env.program.program import Ints


class StateView(NamedTuple):
    """A state, int64[size], which kernels change."""

    state: Ints


class EpisodeRows:
    """`count` episodes, each of a problem of its own and with a state of its own length.

    Args:
        count: number of episodes.
        first: the problem that all of them begin with.
        drawn: returns the problem of a setting.
        state: the state int64[size] that they begin in.
        head: number of fields at the beginning of each state that `heads` copies.

    Attributes:
        like: the parts of a problem and a `StateView`, which tell kernels the types of what rows point to.
        matrices: the rows of each of them, int64[count, n].
        heads: int64[count, head], the first fields of all states, as of the last step or beginning.
        played: the problems.
        states: the states.
    """

    def __init__(
        self, count: int, first: Drawn[Any], drawn: Callable[[Setting], Drawn[Any]], state: Ints, head: int
    ) -> None:
        self._drawn = drawn
        self.like = *first.parts, StateView(state.copy())
        self.matrices = [np.zeros((count, len(row_of(parts))), dtype=np.int64) for parts in self.like]
        self.heads = np.zeros((count, head), dtype=np.int64)
        self.played, self.states = [first] * count, [state] * count
        for index in range(count):
            self.begin(index, first, state)

    def __len__(self) -> int:
        return len(self.states)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle settings and states: addresses mean nothing in another process."""
        settings = [drawn.setting for drawn in self.played]
        return _restored, (self._drawn, settings, self.states, self.heads.shape[1])

    def begin(self, index: int, drawn: Drawn[Any], state: Ints) -> None:
        """Begin an episode of a problem, in a copy of a state, in place of the one with that index."""
        own = state.copy()
        self.played[index], self.states[index] = drawn, own
        for matrix, row in zip(self.matrices, (*drawn.rows, row_of(StateView(own))), strict=True):
            matrix[index] = row
        self.heads[index] = own[: self.heads.shape[1]]

    def part(self, first: int, last: int) -> list[Ints]:
        """Return the matrices of episodes first..last-1."""
        return [matrix[first:last] for matrix in self.matrices]


def _restored(
    drawn: Callable[[Setting], Drawn[Any]], settings: list[Setting], states: list[Ints], head: int
) -> EpisodeRows:
    rows = EpisodeRows(len(states), drawn(settings[0]), drawn, states[0], head)
    for index, setting in enumerate(settings):
        rows.begin(index, drawn(setting), states[index])
    return rows
