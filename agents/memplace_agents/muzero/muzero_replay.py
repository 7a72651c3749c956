"""Replay of the decisions that were played, and the windows of it that training unrolls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.saved_tensors import below, numbers
from memplace_agents.muzero.episodes import Episode, returns_to_go
from memplace_agents.muzero.free_game import NUM_FEATURES, PROFILE_SIZE, Observation
from memplace_agents.muzero.search_types import Floats, Floats32
from memplace_agents.saved_values import whole
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.program.program import Ints

_SMALLEST_PRIORITY = 1e-3
"""Least priority in points, so that every position can be drawn; our choice."""


class ReplayWindows(NamedTuple):
    """`B` positions in games, and the `K` decisions that each is unrolled for.

    Attributes:
        positions: int64[B], indices in the replay.
        observation: the observations there.
        actions: int64[B, K]; random past the end of a game.
        rewards: float32[B, K], points; 0 past the end.
        values: float32[B, K + 1], targets in points; 0 past the end.
        policies: float32[B, K + 1, 3], targets; 0 past the end.
        weights: float32[B], importance weights, 1 at most.
    """

    positions: Ints
    observation: Observation
    actions: Ints
    rewards: Floats32
    values: Floats32
    policies: Floats32
    weights: Floats32


class MuZeroReplay:
    """The last `capacity` decisions, in a ring in which those of a game stand one after the other."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._added = capacity, 0  # `_added` counts all; addition n is at index n % capacity
        # In the order of `Episode`, then the columns that `add` computes.
        self._arrays: dict[str, NDArray[Any]] = {
            "profile": np.zeros((capacity, 2, PROFILE_SIZE, PROFILE_SIZE), np.uint8),
            "features": np.zeros((capacity, NUM_FEATURES), np.float16),
            "actions": np.zeros(capacity, np.int8),
            "rewards": np.zeros(capacity, np.float32),
            "policies": np.zeros((capacity, len(ACTIONS)), np.float32),
            "values": np.zeros(capacity, np.float32),
            "known_returns": np.zeros(capacity, np.float32),
            "returns": np.zeros(capacity, np.float32),
            "decisions_left": np.zeros(capacity, np.int64),
            "priorities": np.zeros(capacity, np.float64),
        }

    @property
    def size(self) -> int:
        """Number of decisions in the replay."""
        return min(self._added, self._capacity)

    def add(self, episode: Episode) -> None:
        """Remember a game; the oldest decisions are forgotten. Of a game that is too long only the end is kept."""
        num_decisions = len(episode.actions)
        returns = returns_to_go(episode.rewards).astype(np.float32)
        decisions_left = np.arange(num_decisions - 1, -1, -1)
        priorities = np.abs(np.maximum(returns, episode.known_returns) - episode.values) + _SMALLEST_PRIORITY
        columns: list[NDArray[Any]] = [*episode, returns, decisions_left, priorities]
        num_kept = min(num_decisions, self._capacity)
        positions = (self._added + np.arange(num_kept)) % self._capacity
        for array, column in zip(self._arrays.values(), columns, strict=True):
            array[positions] = column[num_decisions - num_kept :]
        self._added += num_kept

    def episode(self) -> Episode:
        """Return all decisions in the order of their positions: the game, if there is only one."""
        return Episode(*(self._arrays[name][: self.size] for name in Episode._fields))

    def sample(self, rng: np.random.Generator, count: int, exponent: float, correction: float) -> tuple[Ints, Floats32]:
        """Draw positions by priority (Schaul et al., "Prioritized experience replay", ICLR 2016).

        Args:
            rng: generator of all randomness.
            count: B.
            exponent: chances are in proportion to priority ** exponent.
            correction: exponent of the importance weights.

        Returns:
            int64[B], positions; and float32[B], their importance weights, of which the greatest is 1.
        """
        # Position p covers the interval from cumulative[p - 1] to cumulative[p] of a uniform number.
        cumulative = np.cumsum(self._arrays["priorities"][: self.size] ** exponent)
        drawn = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        positions = np.minimum(drawn, self.size - 1)
        # Importance weights (1 / (size x chance)) ** correction, divided by the greatest.
        chances = np.diff(cumulative, prepend=0.0)[positions] / cumulative[-1]
        weights = (1 / (self.size * np.maximum(chances, 1e-12))) ** correction
        return positions, (weights / weights.max()).astype(np.float32)

    def windows(
        self, rng: np.random.Generator, positions: Ints, weights: Floats32, unroll: int, td_steps: int
    ) -> ReplayWindows:
        """Return windows of K = `unroll` decisions from positions int64[B].

        A value target is the return of the rest of the game, or, with `td_steps`, that of so many decisions and the
        search's value after them; a return known to be possible replaces it if it is more. There is no discount: a
        game has a fixed length.
        """
        arrays = self._arrays
        steps = np.arange(unroll + 1)
        index = (positions[:, None] + steps) % self._capacity  # int64[B, K + 1], of each step in the ring
        inside = steps <= arrays["decisions_left"][positions][:, None]  # bool[B, K + 1], before the end of the game
        values = arrays["returns"][index]
        if td_steps:
            # The return of n decisions and a value V is return - return n decisions later + V there.
            later = (index + td_steps) % self._capacity
            bootstraps = td_steps <= arrays["decisions_left"][index]
            values = values + np.where(bootstraps, arrays["values"][later] - arrays["returns"][later], 0)
        values = np.maximum(values, arrays["known_returns"][index])
        actions = arrays["actions"][index[:, :-1]].astype(np.int64)
        return ReplayWindows(
            positions=positions,
            observation=self.observation(positions),
            actions=np.where(inside[:, :-1], actions, rng.integers(len(ACTIONS), size=actions.shape)),
            rewards=np.where(inside[:, :-1], arrays["rewards"][index[:, :-1]], 0).astype(np.float32),
            values=np.where(inside, values, 0).astype(np.float32),
            policies=np.where(inside[..., None], arrays["policies"][index], 0).astype(np.float32),
            weights=weights,
        )

    def observation(self, positions: Ints) -> Observation:
        """Return the observations at positions int64[B]."""
        return Observation(self._arrays["profile"][positions], self._arrays["features"][positions])

    def update_priorities(self, positions: Ints, errors: Floats) -> None:
        """Set the priorities of positions int64[B] by the errors of their values, float64[B] in points."""
        self._arrays["priorities"][positions] = np.abs(errors) + _SMALLEST_PRIORITY

    def update_targets(self, positions: Ints, policies: Floats32, values: Floats32) -> None:
        """Replace the search's policies float32[B, 3] and values float32[B], in points, at positions int64[B]."""
        self._arrays["policies"][positions], self._arrays["values"][positions] = policies, values

    def state_dict(self) -> dict[str, Any]:
        """Return the content as tensors."""
        arrays = {name: torch.from_numpy(array[: self.size].copy()) for name, array in self._arrays.items()}
        return {"arrays": arrays, "added": self._added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self._added, saved = whole(state["added"]), state["arrays"]
        for name, array in self._arrays.items():
            shape = (self.size, *array.shape[1:])
            array[: self.size] = numbers(saved[name], array.dtype, shape, finite=name != "known_returns")
        now = {name: array[: self.size] for name, array in self._arrays.items()}
        below(now["actions"], len(ACTIONS))
        below(now["decisions_left"], 2**31)
        if (now["known_returns"] == np.inf).any() or (now["priorities"] <= 0).any() or (now["policies"] < 0).any():
            raise ValueError("out of range")


def concatenate(first: ReplayWindows, second: ReplayWindows) -> ReplayWindows:
    """Return the windows of both, in that order."""
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(_arrays(first), _arrays(second), strict=True))
    positions, profile, features, *rest = (np.concatenate(pair) for pair in pairs)
    return ReplayWindows(positions, Observation(profile, features), *rest)


def _arrays(windows: ReplayWindows) -> list[NDArray[Any]]:
    return [windows.positions, *windows.observation, *windows[2:]]
