"""The result of one stage of a search: one agent within a budget."""

from __future__ import annotations

from typing import NamedTuple


class StageResult(NamedTuple):
    """Best plan and effort of one stage of a search.

    Attributes:
        name: the stage, as a rule its agent.
        latency_s: latency of its best plan in seconds, infinite if it found none.
        evaluations: number of plans that it evaluated.
        seconds: wall-clock time that it took.
    """

    name: str
    latency_s: float
    evaluations: int
    seconds: float
