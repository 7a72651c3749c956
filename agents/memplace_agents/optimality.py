"""The gap within which a plan counts as optimal, and which of equally fast plans is the better one."""

from __future__ import annotations

from typing import Literal, get_args

from memplace_env._lib.errors import AgentError

OPTIMAL_GAP = 1e-4
"""Relative gap above a proven bound within which a plan counts as optimal."""

TieBreak = Literal["backing", "none"]
"""Plans that are preferred among equally fast ones: those with the least time of the backing memory's port, or any."""


def is_optimal(latency_s: float, bound_s: float | None) -> bool:
    """Return whether a latency is within `OPTIMAL_GAP` of a proven bound; False if there is none."""
    return bound_s is not None and latency_s <= bound_s * (1 + OPTIMAL_GAP)


def check_tie_break(value: object) -> None:
    """Check that a value is a `TieBreak`.

    Raises:
        AgentError: if it is not.
    """
    if value not in get_args(TieBreak):
        raise AgentError(f"tie_break must be {' or '.join(get_args(TieBreak))}, not {value!r}.")
