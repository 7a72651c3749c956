"""Decisions that a policy has played, their advantages, and the environments that it plays in.

In shapes `T` denotes the decisions of a round, `B` the episodes side by side, `F` the length of an observation and `A`
the number of actions.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.program import Ints

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


class Turn(NamedTuple):
    """The present decision of each episode.

    Attributes:
        observation: float32[B, F].
        legal: bool[B, A], legal actions; at least one of each episode.
        entry: int64[B], number of the decision in its program, for the policy's table; all 0 without tables.
    """

    observation: Floats
    legal: Bools
    entry: Ints


class Episodes(Protocol):
    """Episodes of one program, or of many programs whose returns have one scale, that begin anew as they end.

    Attributes:
        entries: rows that a policy's table needs for these episodes; 0 where decisions cannot be told apart.
        length: decisions of an episode, about; a round of whole episodes has so many.
    """

    entries: int
    length: int

    def turn(self) -> Turn:
        """Return the present decisions."""

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Play int64[B]; return rewards float64[B] and which episodes ended, bool[B]."""


class Rollout(NamedTuple):
    """A round of decisions and their results.

    Attributes:
        observation: float32[T, B, F].
        legal: bool[T, B, A].
        entry, action: int64[T, B].
        log_prob: float32[T, B], of the actions under the policy that played them.
        reward: float32[T, B].
        ended: bool[T, B], whether the episode ended with the decision.
        last: float32[B, F], observations after the round.
    """

    observation: Floats
    legal: Bools
    entry: Ints
    action: Ints
    log_prob: Floats
    reward: Floats
    ended: Bools
    last: Floats


def advantages(reward: Floats, value: Floats, last_value: Floats, ended: Bools, lambda_: float) -> Floats:
    """Return float32[T, B], generalised advantage estimates without a discount (Schulman et al., arXiv 1506.02438).

    Args:
        reward, ended: float32[T, B] and bool[T, B], results of the decisions.
        value: float32[T, B], values before the decisions.
        last_value: float32[B], values after the last.
        lambda_: weight of later estimates, 0..1.
    """
    result, later = np.empty_like(reward), np.zeros_like(last_value)
    following = last_value
    for t in reversed(range(len(reward))):
        later = reward[t] - value[t] + ~ended[t] * (following + np.float32(lambda_) * later)
        result[t], following = later, value[t]
    return result
