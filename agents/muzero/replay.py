"""What was played, in one ring of decisions, and the windows of it that training unrolls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agents.muzero.free_game import FLAT, SIDE, Seen
from agents.muzero.selfplay import Episode
from agents.muzero.tree import Floats
from memplace_env.workload.program import Ints

_SMALLEST_PRIORITY = 1e-3
"""In points, so that every position can be drawn; our choice."""


class Windows(NamedTuple):
    """B positions, and the K decisions that each is unrolled for.

    Attributes:
        at: int64[B], places in the replay.
        seen: what was seen there.
        action: int64[B, K]; random past the end of a game.
        reward: float32[B, K], points; 0 past the end.
        value: float32[B, K + 1], targets; 0 past the end.
        policy: float32[B, K + 1, 3], targets; 0 past the end.
        weight: float32[B], importance weights, 1 at most.
    """

    at: Ints
    seen: Seen
    action: Ints
    reward: NDArray[np.float32]
    value: NDArray[np.float32]
    policy: NDArray[np.float32]
    weight: NDArray[np.float32]


class Replay:
    """The last `capacity` decisions; the games' places in the ring say all: a game's decisions stand in a row.

    Args:
        capacity: decisions.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._added = capacity, 0
        self._arrays: dict[str, NDArray[Any]] = {
            "profile": np.zeros((capacity, 2, SIDE, SIDE), np.uint8),
            "flat": np.zeros((capacity, FLAT), np.float16),
            "action": np.zeros(capacity, np.int8),
            "reward": np.zeros(capacity, np.float32),
            "policy": np.zeros((capacity, 3), np.float32),
            "value": np.zeros(capacity, np.float32),
            "known": np.zeros(capacity, np.float32),
            "to_go": np.zeros(capacity, np.float32),
            "left": np.zeros(capacity, np.int64),
            "priority": np.zeros(capacity, np.float64),
        }

    @property
    def size(self) -> int:
        """Decisions held."""
        return min(self._added, self._capacity)

    def add(self, episode: Episode) -> None:
        """Remember a game; the oldest decisions are forgotten. Of a game that is too long only the end is kept."""
        count = len(episode.action)
        to_go = np.cumsum(episode.reward[::-1], dtype=np.float64)[::-1].astype(np.float32)
        left = np.arange(count - 1, -1, -1)
        priority = np.abs(np.maximum(to_go, episode.known) - episode.value) + _SMALLEST_PRIORITY
        columns: list[NDArray[Any]] = [*episode, to_go, left, priority]
        kept = min(count, self._capacity)
        at = (self._added + np.arange(kept)) % self._capacity
        for array, column in zip(self._arrays.values(), columns, strict=True):
            array[at] = column[count - kept :]
        self._added += kept

    def episode(self) -> Episode:
        """The decisions held, in the order of their places; of one game, that is the game."""
        return Episode(*(self._arrays[name][: self.size] for name in Episode._fields))

    def draw(
        self, rng: np.random.Generator, count: int, exponent: float, correction: float
    ) -> tuple[Ints, NDArray[np.float32]]:
        """Places int64[B] drawn by priority ** exponent, and their importance weights float32[B], 1 at most."""
        bounds = np.cumsum(self._arrays["priority"][: self.size] ** exponent)
        drawn = np.searchsorted(bounds, rng.random(count) * bounds[-1], side="right")
        at = np.minimum(drawn, self.size - 1)
        chance = np.diff(bounds, prepend=0.0)[at] / bounds[-1]
        weight = (1 / (self.size * np.maximum(chance, 1e-12))) ** correction
        return at, (weight / weight.max()).astype(np.float32)

    def windows(
        self, rng: np.random.Generator, at: Ints, weight: NDArray[np.float32], unroll: int, td_steps: int
    ) -> Windows:
        """Windows of `unroll` decisions from places int64[B].

        A value target is the return of the rest of the game, or, with `td_steps`, that of so many decisions and the
        search's value after them; what is known to be possible counts if it is more. There is no discount: a game has
        a fixed length.
        """
        held = self._arrays
        steps = np.arange(unroll + 1)
        places = (at[:, None] + steps) % self._capacity
        inside = steps <= held["left"][at][:, None]
        value = held["to_go"][places]
        if td_steps:
            later = (places + td_steps) % self._capacity
            bootstraps = td_steps <= held["left"][places]
            value = value + np.where(bootstraps, held["value"][later] - held["to_go"][later], 0)
        value = np.maximum(value, held["known"][places])
        action = held["action"][places[:, :-1]].astype(np.int64)
        return Windows(
            at=at,
            seen=self.seen(at),
            action=np.where(inside[:, :-1], action, rng.integers(3, size=action.shape)),
            reward=np.where(inside[:, :-1], held["reward"][places[:, :-1]], 0).astype(np.float32),
            value=np.where(inside, value, 0).astype(np.float32),
            policy=np.where(inside[..., None], held["policy"][places], 0).astype(np.float32),
            weight=weight,
        )

    def seen(self, at: Ints) -> Seen:
        """What was seen at places int64[B]."""
        return Seen(self._arrays["profile"][at], self._arrays["flat"][at])

    def judge(self, at: Ints, error: Floats) -> None:
        """Set priorities by the error of the value, float[B] in points."""
        self._arrays["priority"][at] = np.abs(error) + _SMALLEST_PRIORITY

    def refresh(self, at: Ints, policy: NDArray[np.float32], value: NDArray[np.float32]) -> None:
        """Replace what the search once found at places by what it finds now."""
        self._arrays["policy"][at], self._arrays["value"][at] = policy, value

    def state_dict(self) -> dict[str, Any]:
        """What it holds, as tensors."""
        held = {name: torch.from_numpy(array[: self.size].copy()) for name, array in self._arrays.items()}
        return {"arrays": held, "added": self._added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        for name, array in self._arrays.items():
            array[: len(state["arrays"][name])] = state["arrays"][name].numpy()
        self._added = int(state["added"])


def join(one: Windows, other: Windows) -> Windows:
    """Windows of both, in that order."""
    pairs: list[tuple[NDArray[Any], NDArray[Any]]] = list(zip(_flat(one), _flat(other), strict=True))
    at, profile, flat, *rest = (np.concatenate(pair) for pair in pairs)
    return Windows(at, Seen(profile, flat), *rest)


def _flat(windows: Windows) -> list[NDArray[Any]]:
    return [windows.at, *windows.seen, *windows[2:]]
