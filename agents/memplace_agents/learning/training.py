"""Training runs: the state of a policy in training, and its rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from memplace_agents.learning.policy_file import PolicyNetwork
from memplace_agents.saved_values import load_random, random_state, whole

P = TypeVar("P", bound=PolicyNetwork)


class TrainingRun(ABC, Generic[P]):
    """One policy in training, round by round; subclasses add their own state to `state_dict`.

    Args:
        seed: seed of all randomness.

    Attributes:
        round: rounds done.
        scalars: figures of the last round, by TensorBoard tag.
    """

    def __init__(self, seed: int) -> None:
        self.round = 0
        self.scalars: dict[str, float] = {}
        self._rng = np.random.default_rng(seed)

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if budget or time is spent, or there is nothing to decide."""

    @property
    @abstractmethod
    def policy(self) -> P:
        """The policy learned so far."""

    @abstractmethod
    def begin(self) -> None:
        """Evaluate the plans that are known without search."""

    @abstractmethod
    def step(self) -> None:
        """Do one round."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return {"round": self.round, "random": random_state(self._rng)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.round = whole(state["round"])
        load_random(self._rng, state["random"])
