"""Training runs: the state of a policy in training, its rounds, and the threads that torch works with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import numpy as np
import torch

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work with one thread inside.

    Our networks are small: more threads mostly wait for each other, on a busy machine for many times the work. One
    thread also adds in the same order on every machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
