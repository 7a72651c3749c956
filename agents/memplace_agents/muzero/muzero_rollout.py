"""Decisions that were played with search, and what the network learns from them.

In shapes `T` denotes the decisions of a round in each game, `B` the games.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.search_types import Bools, Floats, Floats32
from memplace_env.program.program import Ints

IMPROVEMENT_LIMIT = 1.0
"""Most by which the logit of an action rises or falls in a target (Muesli)."""


class MuZeroRollout(NamedTuple):
    """A round of one program's games.

    Attributes:
        observations: float32[T, B, 546].
        actions: int64[T, B].
        rewards: float32[T, B], points.
        ends: bool[T, B], whether the game ended there; the next decision is another game's.
        log_priors: float32[T, B, 3], of the policy that searched; -inf for illegal actions.
        advantages: float32[T, B, 3], the search's, in points; 0 for actions that it did not try.
        values: float32[T + 1, B], the network's, in points; the last are those after the round.
    """

    observations: Floats32
    actions: Ints
    rewards: Floats32
    ends: Bools
    log_priors: Floats32
    advantages: Floats32
    values: Floats32


class RolloutTargets(NamedTuple):
    """Policies and values that the network learns from a rollout.

    Attributes:
        policies: float32[T, B, 3].
        values: float32[T, B], points.
    """

    policies: Floats32
    values: Floats32


def search_advantages(log_priors: Floats32, qvalues: Floats, visits: Ints) -> Floats32:
    """Return float32[B, 3], values of the actions less their mean by the prior; 0 for actions without visits."""
    weights = np.where(visits > 0, np.exp(log_priors), 0)
    mean = (weights * qvalues).sum(axis=1) / np.maximum(weights.sum(axis=1), np.finfo(np.float32).tiny)
    return np.where(visits > 0, qvalues - mean[:, None], 0).astype(np.float32)


def followed(rollout: MuZeroRollout, trace: float) -> Floats32:
    """Return float32[T, B], by how much what followed exceeds the value, by lambda-returns (Sutton, 1988).

    There is no discount: a game has a fixed length.
    """
    num_decisions, num_games = rollout.rewards.shape
    exceeds, later = np.empty((num_decisions, num_games), np.float32), np.zeros(num_games, np.float32)
    for decision in range(num_decisions - 1, -1, -1):
        goes_on = ~rollout.ends[decision]
        surprise = rollout.rewards[decision] + goes_on * rollout.values[decision + 1] - rollout.values[decision]
        exceeds[decision] = later = surprise + trace * goes_on * later
    return exceeds


def mixed_advantages(rollout: MuZeroRollout, exceeds: Floats32, outcome: float) -> Floats32:
    """Return the search's advantages float32[T, B, 3], what followed the action played weighing `outcome`."""
    advantages, played = rollout.advantages.copy(), rollout.actions[..., None]
    of_played = np.take_along_axis(advantages, played, axis=2)
    mixed = (1 - outcome) * of_played + outcome * exceeds[..., None]
    np.put_along_axis(advantages, played, mixed, axis=2)
    return advantages


def spread(rollout: MuZeroRollout, advantages: Floats32) -> float:
    """Return the root mean square of the advantages, weighted by the prior, in points."""
    return float(np.sqrt((np.exp(rollout.log_priors) * advantages**2).sum(axis=2).mean()))


def improved_policies(log_priors: Floats32, rises: NDArray[np.float32]) -> Floats32:
    """Return policies float32[T, B, 3] whose logits rise by so much, `IMPROVEMENT_LIMIT` at most."""
    logits = log_priors + np.clip(rises, -IMPROVEMENT_LIMIT, IMPROVEMENT_LIMIT)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray(weights / weights.sum(axis=2, keepdims=True), dtype=np.float32)
