"""What a submission holds for one environment, budget and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from memplace_env.plan import MemoryPlan


class Point(NamedTuple):
    """A better plan was found: when, and its latency.

    Attributes:
        evaluations: plans evaluated until then; the whole batch in which it was found counts.
        seconds: wall time until then; declared, nobody can check it.
        latency_ps: of the best plan from then on. Under noise, of the plan that was believed the best, by what was
            known of it, so that it may rise.
    """

    evaluations: int
    seconds: float
    latency_ps: int


@dataclass(frozen=True)
class Entry:
    """One run.

    Attributes:
        env_id, budget, seed: which.
        plan: the best plan found.
        latency_ps: its latency; in a black-box track its true one, without noise.
        evaluations: plans that were evaluated, every repeated measurement included.
        seconds: wall time; declared.
        curve: the improvements, in order.
    """

    env_id: str
    budget: str
    seed: int
    plan: MemoryPlan
    latency_ps: int
    evaluations: int
    seconds: float
    curve: tuple[Point, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells the runs of a submission apart."""
        return self.env_id, self.budget, self.seed
