"""Rewards of the one-shot formulation: functions of arrays, which serve one assignment and a batch alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.foreign import described

Floats = NDArray[np.float64]


class Scores(NamedTuple):
    """Scores of B assignments, after the compiler has made each a plan that can run; float64[B] each but `level`.

    Attributes:
        latency_s: seconds of the compiled plan.
        energy_j: joules of the compiled plan.
        reassigned: EGRL's epsilon, bytes that did not get their assigned level over all bytes that an assignment
            decides about, in [0, 1]; 0 means that the assignment is valid unchanged.
        speedup: latency(native) / latency_s.
        energy_saving: energy(native) / energy_j; NaN where a simulator reports an energy of 0, which means unknown.
        level: int8[B, K], the level that the compiler gave each tensor.
    """

    latency_s: Floats
    energy_j: Floats
    reassigned: Floats
    speedup: Floats
    energy_saving: Floats
    level: NDArray[np.int8]

    def slowed(self, factor: Floats | float) -> Scores:
        """Return the scores if each plan takes `factor` times as long; float64[B] or one for all."""
        return self._replace(latency_s=self.latency_s * factor, speedup=self.speedup / factor)


RewardFn = Callable[[Scores], Floats]


def speedup_reward(scores: Scores) -> Floats:
    """Return the speed-up over native of the plan that the compiler made, whether it had to move something or not."""
    return scores.speedup


def egrl_reward(scores: Scores) -> Floats:
    """Return -epsilon for an assignment that the compiler had to change, else the speed-up over native, as EGRL does.

    EGRL's Algorithm 1 may square the ratio; the plain one is our choice, so that a reward reads as a speed-up.
    """
    return _unless_reassigned(scores, scores.speedup)


def energy_reward(scores: Scores) -> Floats:
    """Return -epsilon for an assignment that the compiler had to change, else energy(native) / energy."""
    return _unless_reassigned(scores, scores.energy_saving)


def edp_reward(scores: Scores) -> Floats:
    """Return -epsilon for an assignment that the compiler had to change, else native's energy x delay over its own."""
    return _unless_reassigned(scores, scores.speedup * scores.energy_saving)


REWARDS: dict[str, RewardFn] = {
    "speedup": speedup_reward,
    "egrl": egrl_reward,
    "energy": energy_reward,
    "edp": edp_reward,
}


def resolve_reward(reward: str | RewardFn) -> RewardFn:
    """Return the reward function of a name, or the function itself.

    Raises:
        MemPlaceError: for an unknown name.
    """
    if callable(reward):
        return reward
    if not isinstance(reward, str) or reward not in REWARDS:
        raise MemPlaceError(
            f"No reward is called {described(reward)}; pass one of {', '.join(REWARDS)} or a function of Scores."
        )
    return REWARDS[reward]


def _unless_reassigned(scores: Scores, value: Floats) -> Floats:
    return np.where(scores.reassigned > 0, -scores.reassigned, value)
