"""Games as they are remembered: what was seen, played and found at each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.muzero.base import Floats, Floats32
from agents.muzero.free_game import Observation
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.workload.program import Ints


class Episode(NamedTuple):
    """The `n` decisions with a choice of one game.

    Attributes:
        profile: uint8[n, 2, 32, 32], see `Observation`.
        features: float16[n, 474], see there.
        actions: int8[n].
        rewards: float32[n], points.
        policies: float32[n, 3], targets of the policy.
        values: float32[n], the search's values, in points.
        known_returns: float32[n], a return from there on that is known to be possible, in points; -inf where none is.
    """

    profile: NDArray[np.uint8]
    features: NDArray[np.float16]
    actions: NDArray[np.int8]
    rewards: Floats32
    policies: Floats32
    values: Floats32
    known_returns: Floats32

    def after(self, other: Episode, decisions: int) -> Episode:
        """This game with the first so many decisions of another before it."""
        columns: list[NDArray[Any]] = list(self)
        first_columns: list[NDArray[Any]] = list(other)
        pairs = zip(first_columns, columns, strict=True)
        return Episode(*(np.concatenate([first[:decisions], column]) for first, column in pairs))

    @property
    def demonstration(self) -> Episode:
        """The same game with the actions played as policies and the returns as values."""
        returns = returns_to_go(self.rewards).astype(np.float32)
        policies = np.eye(len(ACTIONS), dtype=np.float32)[self.actions]
        return self._replace(policies=policies, values=returns, known_returns=returns)


class Decision(NamedTuple):
    """One decision in each of `B` games.

    Attributes:
        games: int64[B], numbers of the games.
        observation: what was seen before it.
        actions: int64[B].
        rewards: float64[B], points.
        policies: float32[B, 3].
        values: float[B], points.
        known_returns: float64[B], points; see `Episode`.
    """

    games: Ints
    observation: Observation
    actions: Ints
    rewards: Floats
    policies: Floats32
    values: NDArray[np.floating]
    known_returns: Floats


def to_episodes(decisions: Sequence[Decision], num_games: int) -> list[Episode]:
    """The games one by one; nothing if there was no choice at all."""
    if not decisions:
        return []
    games = np.concatenate([decision.games for decision in decisions])
    columns: list[list[NDArray[Any]]] = [[*decision.observation, *decision[2:]] for decision in decisions]
    dtypes = (np.uint8, np.float16, np.int8, *[np.float32] * 4)
    arrays = [
        np.concatenate(parts).astype(dtype) for parts, dtype in zip(zip(*columns, strict=True), dtypes, strict=True)
    ]
    indices = [np.flatnonzero(games == game) for game in range(num_games)]
    return [Episode(*(array[index] for array in arrays)) for index in indices]


def returns_to_go(rewards: Floats32) -> Floats:
    """float64[n], the return of the rest of a game from each of its decisions on, without discount."""
    return np.asarray(np.cumsum(rewards[::-1], dtype=np.float64)[::-1])
