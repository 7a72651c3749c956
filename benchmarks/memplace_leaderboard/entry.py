"""A run of a submission: one environment, budget and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from memplace_env.placement.memory_plan import MemoryPlan

RunKey = tuple[str, str, int]
"""Environment id, budget and seed: unique within a submission."""


class Point(NamedTuple):
    """A better plan on the way: when it was found, and its latency.

    Attributes:
        evaluations: plans evaluated by then; the whole batch in which it was found counts.
        seconds: wall time by then; declared, cannot be checked.
        latency_ps: latency of the best plan from then on. Under noise, an estimate of the plan believed to be the best,
            so that it may rise.
    """

    evaluations: int
    seconds: float
    latency_ps: int


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes:
        env_id, budget, seed: its key.
        plan: the best plan found.
        latency_ps: the plan's latency; in a black-box track the true one, without noise.
        evaluations: plans evaluated, each repeated measurement included.
        seconds: wall time.
        curve: the improvements, in order.
        processor_seconds: time that the agent's process and those that it started spent on cores, as the judge measured
            it; None in submissions of format 1, which had no judge.
    """

    env_id: str
    budget: str
    seed: int
    plan: MemoryPlan
    latency_ps: int
    evaluations: int
    seconds: float
    curve: tuple[Point, ...]
    processor_seconds: float | None = None

    @property
    def key(self) -> RunKey:
        """Environment id, budget and seed."""
        return self.env_id, self.budget, self.seed
