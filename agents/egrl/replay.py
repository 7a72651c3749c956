"""What was tried and what it earned."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.learning.saved import numbers
from agents.saved import whole


class Replay:
    """The last `capacity` maps uint8[., S] with their rewards, in a ring.

    Attributes:
        size: maps held.
    """

    def __init__(self, capacity: int, decisions: int) -> None:
        self._maps = np.zeros((capacity, decisions), dtype=np.uint8)
        self._rewards = np.zeros(capacity, dtype=np.float32)
        self._added = 0

    @property
    def size(self) -> int:
        """Maps held."""
        return min(self._added, len(self._rewards))

    def add(self, maps: NDArray[np.integer], rewards: NDArray[np.floating]) -> None:
        """Remember maps int[B, S] and rewards float[B]; the oldest are forgotten."""
        where = (self._added + np.arange(len(maps))) % len(self._rewards)
        self._maps[where], self._rewards[where] = maps, rewards
        self._added += len(maps)

    def sample(self, rng: np.random.Generator, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Maps int64[count, S] and rewards float32[count], drawn with replacement."""
        chosen = rng.integers(self.size, size=count)
        return self._maps[chosen].astype(np.int64), self._rewards[chosen]

    def state_dict(self) -> dict[str, Any]:
        """What it holds, as tensors."""
        maps, rewards = self._maps[: self.size], self._rewards[: self.size]
        return {"maps": torch.from_numpy(maps), "rewards": torch.from_numpy(rewards), "added": self._added}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave; of one with more room, the newest maps are kept."""
        maps = numbers(state["maps"], np.uint8, (None, self._maps.shape[1]))
        rewards, added = numbers(state["rewards"], np.float32, (len(maps),)), whole(state["added"], len(maps))
        capacity = len(self._rewards)
        if len(maps) > capacity:
            newest = (added - capacity + np.arange(capacity)) % len(maps)
            maps, rewards, added = maps[newest], rewards[newest], capacity
        if added > len(maps) and len(maps) < capacity:
            raise ValueError("maps are missing")
        self._maps[: len(maps)], self._rewards[: len(maps)] = maps, rewards
        self._added = added
