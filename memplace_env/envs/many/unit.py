"""Units of rewards that compare across programs."""

from __future__ import annotations

import math
from typing import Final

MOST_LOADED: Final = 256
"""Programs of a formulation that stay loaded in a process, the least recently drawn leaving first; our choice.

The largest of the lists takes 2 MB with its tables, so all take less than half a gigabyte.
"""
LEAST_GAIN: Final = 0.01
"""Least gain that is a unit, as a fraction of the latency with everything in the backing memory; our choice."""


def gain_scale(backing_s: float, best_s: float) -> float:
    """Return the factor from fractions of the all-backing latency to percent of what the best cheap plan gains."""
    return 100.0 / max(1.0 - best_s / backing_s, LEAST_GAIN)


def optimum_infos(optimal_s: float | None, backing_s: float, scale: float) -> dict[str, float]:
    """Return `optimal_latency_s` and `optimal_return` of infos, NaN where no optimum is known.

    Args:
        optimal_s: latency of the optimum, seconds.
        backing_s: latency with everything in the backing memory, seconds.
        scale: factor of rewards from fractions of the latter.
    """
    if optimal_s is None:
        return {"optimal_latency_s": math.nan, "optimal_return": math.nan}
    return {"optimal_latency_s": optimal_s, "optimal_return": scale * (1 - optimal_s / backing_s)}
