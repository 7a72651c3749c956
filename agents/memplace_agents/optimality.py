"""The gap within which a plan counts as optimal, for agents and the leaderboard."""

from __future__ import annotations

OPTIMAL_GAP = 1e-4
"""Relative gap above a proven bound within which a plan counts as optimal."""


def is_optimal(latency_s: float, bound_s: float | None) -> bool:
    """Return whether a latency is within `OPTIMAL_GAP` of a proven bound; False if there is none."""
    return bound_s is not None and latency_s <= bound_s * (1 + OPTIMAL_GAP)
