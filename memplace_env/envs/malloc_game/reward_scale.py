"""Units of the game's rewards, by name."""

from __future__ import annotations

from typing import Any, Final

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described

REWARD_SCALES: Final = {"percent": 100.0, "fraction": 1.0}
"""Reward of saving the whole latency with everything in the backing memory, by name of the unit."""


def reward_scale(reward: Any) -> float:
    """Return the factor on fractions of the all-backing latency that makes rewards of the unit with this name.

    Raises:
        EnvError: for an unknown name.
    """
    if not isinstance(reward, str) or reward not in REWARD_SCALES:
        names = " or ".join(repr(name) for name in REWARD_SCALES)
        raise EnvError(f"A game's reward is {names}, not {described(reward)}.")
    return REWARD_SCALES[reward]
