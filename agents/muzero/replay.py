"""What was played, in one ring of decisions, and the windows of it that training unrolls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agents.learning.saved import below, numbers
from agents.muzero.base import Floats, Floats32
from agents.muzero.episodes import Episode, returns_to_go
from agents.muzero.free_game import NUM_FEATURES, PROFILE_SIZE, Observation
from agents.saved import whole
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.workload.program import Ints

_SMALLEST_PRIORITY = 1e-3
"""In points, so that every position can be drawn; our choice."""


class Windows(NamedTuple):
    """`B` positions in games, and the `K` decisions that each is unrolled for.

    Attributes:
        positions: int64[B], places in the replay.
        observation: what was seen there.
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


class Replay:
    """The last `capacity` decisions, in a ring in which those of a game stand one after the other.

    Args:
        capacity: decisions.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._added = capacity, 0
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
        """Decisions held."""
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
        """The decisions held, in the order of their positions; of one game, that is the game."""
        return Episode(*(self._arrays[name][: self.size] for name in Episode._fields))

    def sample(self, rng: np.random.Generator, count: int, exponent: float, correction: float) -> tuple[Ints, Floats32]:
        """Draw positions by priority (Schaul et al., "Prioritized experience replay", ICLR 2016).

        Args:
            rng: of the draw.
            count: B.
            exponent: chances are in proportion to priority ** exponent.
            correction: exponent of the importance weights.

        Returns:
            int64[B], positions; and float32[B], their importance weights, of which the greatest is 1.
        """
        cumulative = np.cumsum(self._arrays["priorities"][: self.size] ** exponent)
        drawn = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        positions = np.minimum(drawn, self.size - 1)
        chances = np.diff(cumulative, prepend=0.0)[positions] / cumulative[-1]
        weights = (1 / (self.size * np.maximum(chances, 1e-12))) ** correction
        return positions, (weights / weights.max()).astype(np.float32)

    def windows(
        self, rng: np.random.Generator, positions: Ints, weights: Floats32, unroll: int, td_steps: int
    ) -> Windows:
        """Windows of `unroll` decisions from positions int64[B].

        A value target is the return of the rest of the game, or, with `td_steps`, that of so many decisions and the
        search's value after them; what is known to be possible counts if it is more. There is no discount: a game has
        a fixed length.
        """
        held = self._arrays
        steps = np.arange(unroll + 1)
        places = (positions[:, None] + steps) % self._capacity
        inside = steps <= held["decisions_left"][positions][:, None]
        values = held["returns"][places]
        if td_steps:
            later = (places + td_steps) % self._capacity
            bootstraps = td_steps <= held["decisions_left"][places]
            values = values + np.where(bootstraps, held["values"][later] - held["returns"][later], 0)
        values = np.maximum(values, held["known_returns"][places])
        actions = held["actions"][places[:, :-1]].astype(np.int64)
        return Windows(
            positions=positions,
            observation=self.observation(positions),
            actions=np.where(inside[:, :-1], actions, rng.integers(len(ACTIONS), size=actions.shape)),
            rewards=np.where(inside[:, :-1], held["rewards"][places[:, :-1]], 0).astype(np.float32),
            values=np.where(inside, values, 0).astype(np.float32),
            policies=np.where(inside[..., None], held["policies"][places], 0).astype(np.float32),
            weights=weights,
        )

    def observation(self, positions: Ints) -> Observation:
        """What was seen at positions int64[B]."""
        return Observation(self._arrays["profile"][positions], self._arrays["features"][positions])

    def update_priorities(self, positions: Ints, errors: Floats) -> None:
        """Set the priorities of positions int64[B] by the errors of their values, float64[B] in points."""
        self._arrays["priorities"][positions] = np.abs(errors) + _SMALLEST_PRIORITY

    def update_targets(self, positions: Ints, policies: Floats32, values: Floats32) -> None:
        """Replace what the search once found at positions int64[B] by float32[B, 3] and float32[B] in points."""
        self._arrays["policies"][positions], self._arrays["values"][positions] = policies, values

    def state_dict(self) -> dict[str, Any]:
        """All that it holds, as tensors."""
        held = {name: torch.from_numpy(array[: self.size].copy()) for name, array in self._arrays.items()}
        return {"arrays": held, "added": self._added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self._added, saved = whole(state["added"]), state["arrays"]
        for name, held in self._arrays.items():
            shape = (self.size, *held.shape[1:])
            held[: self.size] = numbers(saved[name], held.dtype, shape, finite=name != "known_returns")
        now = {name: held[: self.size] for name, held in self._arrays.items()}
        below(now["actions"], len(ACTIONS))
        below(now["decisions_left"], 2**31)
        if (now["known_returns"] == np.inf).any() or (now["priorities"] <= 0).any() or (now["policies"] < 0).any():
            raise ValueError("out of range")


def concatenate(first: Windows, second: Windows) -> Windows:
    """Windows of both, in that order."""
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(_arrays(first), _arrays(second), strict=True))
    positions, profile, features, *rest = (np.concatenate(pair) for pair in pairs)
    return Windows(positions, Observation(profile, features), *rest)


def _arrays(windows: Windows) -> list[NDArray[Any]]:
    return [windows.positions, *windows.observation, *windows[2:]]
