"""Replay of the assignments that were tried, with their rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.saved_tensors import numbers
from memplace_agents.saved_values import whole

_FITTEST = 8
"""Assignments that are imitated."""


class EgrlReplay:
    """The last `capacity` assignments uint8[., S] with their rewards, in a ring, and the fittest of all.

    Attributes:
        fittest: the fittest assignments uint8[K, S] of those that `admire` was given, and their rewards float32[K], all
            different and falling; K is at most 8.
    """

    def __init__(self, capacity: int, decisions: int) -> None:
        self._assignments = np.zeros((capacity, decisions), dtype=np.uint8)
        self._rewards = np.zeros(capacity, dtype=np.float32)
        self._added = 0  # in all; addition n is at index n % capacity
        self.fittest = np.zeros((0, decisions), dtype=np.uint8), np.zeros(0, dtype=np.float32)

    @property
    def size(self) -> int:
        """Number of assignments in the replay."""
        return min(self._added, len(self._rewards))

    def add(self, assignments: NDArray[np.integer], rewards: NDArray[np.floating]) -> None:
        """Remember assignments int[B, S] and rewards float[B]; the oldest are forgotten."""
        index = (self._added + np.arange(len(assignments))) % len(self._rewards)
        self._assignments[index], self._rewards[index] = assignments, rewards
        self._added += len(assignments)

    def admire(self, assignments: NDArray[np.integer], rewards: NDArray[np.floating]) -> None:
        """Keep the fittest of these assignments int[B, S] and of those before, by rewards float[B]."""
        pool = np.concatenate([self.fittest[1], rewards.astype(np.float32)])
        first = np.unique(-pool, return_index=True)[1][:_FITTEST]
        self.fittest = np.concatenate([self.fittest[0], assignments.astype(np.uint8)])[first], pool[first]

    def sample(self, rng: np.random.Generator, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Draw assignments int64[count, S] and rewards float32[count], with replacement."""
        chosen = rng.integers(self.size, size=count)
        return self._assignments[chosen].astype(np.int64), self._rewards[chosen]

    def state_dict(self) -> dict[str, Any]:
        """Return the content as tensors."""
        assignments, rewards = self._assignments[: self.size], self._rewards[: self.size]
        return {
            "maps": torch.from_numpy(assignments),
            "rewards": torch.from_numpy(rewards),
            "added": self._added,
            "fittest": [torch.from_numpy(array) for array in self.fittest],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave; of one with more room, the newest assignments are kept."""
        assignments = numbers(state["maps"], np.uint8, (None, self._assignments.shape[1]))
        rewards, added = (
            numbers(state["rewards"], np.float32, (len(assignments),)),
            whole(state["added"], len(assignments)),
        )
        capacity = len(self._rewards)
        if len(assignments) > capacity:
            newest = (added - capacity + np.arange(capacity)) % len(assignments)
            assignments, rewards, added = assignments[newest], rewards[newest], capacity
        if added > len(assignments) and len(assignments) < capacity:
            raise ValueError("assignments are missing")
        self._assignments[: len(assignments)], self._rewards[: len(assignments)] = assignments, rewards
        self._added = added
        maps, earned = state["fittest"]
        maps = numbers(maps, np.uint8, (None, self._assignments.shape[1]))
        self.fittest = maps, numbers(earned, np.float32, (len(maps),))
