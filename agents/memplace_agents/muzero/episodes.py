"""Games as they are remembered: observation, action, reward and search result of each decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.search_types import Floats, Floats32
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.program.program import Ints


class Episode(NamedTuple):
    """The `n` decisions with a choice of one game.

    Attributes:
        profile: uint8[n, 2, 32, 32], see `Observation`.
        features: float16[n, 474], see there.
        actions: int8[n].
        rewards: float32[n], points.
        policies: float32[n, 3], targets of the policy.
        values: float32[n], the search's values, in points.
        known_returns: float32[n], a return from there on that is known to be possible, in points; -inf for none.
    """

    profile: NDArray[np.uint8]
    features: NDArray[np.float16]
    actions: NDArray[np.int8]
    rewards: Floats32
    policies: Floats32
    values: Floats32
    known_returns: Floats32

    def after(self, other: Episode, decisions: int) -> Episode:
        """Return this game with the first `decisions` of another before it."""
        pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(other, self, strict=True))
        return Episode(*(np.concatenate([first[:decisions], column]) for first, column in pairs))

    @property
    def demonstration(self) -> Episode:
        """The same game with the actions played as policies and the returns as values."""
        returns = returns_to_go(self.rewards).astype(np.float32)
        policies = np.eye(len(ACTIONS), dtype=np.float32)[self.actions]
        return self._replace(policies=policies, values=returns, known_returns=returns)


Decision = tuple[Ints, tuple[NDArray[Any], ...]]
"""Games int64[B] with a decision each, and its arrays [B, ...]: the fields of `Episode` in any precision."""


def to_episodes(decisions: Sequence[Decision], num_games: int) -> list[Episode]:
    """Return the games one by one, from their decisions in the order of play; nothing if no game had a choice."""
    if not decisions:
        return []
    games = np.concatenate([part for part, _ in decisions])
    dtypes = (np.uint8, np.float16, np.int8, *[np.float32] * 4)
    columns = zip(*(arrays for _, arrays in decisions), strict=True)
    arrays = [np.concatenate(parts).astype(dtype) for parts, dtype in zip(columns, dtypes, strict=True)]
    indices = [np.flatnonzero(games == game) for game in range(num_games)]
    return [Episode(*(array[index] for array in arrays)) for index in indices]


def returns_to_go(rewards: Floats32) -> Floats:
    """Return float64[n], the undiscounted return of the rest of a game from each of its decisions on."""
    return np.asarray(np.cumsum(rewards[::-1], dtype=np.float64)[::-1])
