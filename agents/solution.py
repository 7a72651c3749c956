"""What a search tells on its way and returns at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from agents.saved import number, optional, whole
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report

Outcome = Literal["optimal", "feasible", "infeasible", "unknown"]
"""optimal: nothing better exists among what the agent searched, proven; feasible: a valid plan, nothing proven about
it or a gap left; infeasible: proven that there is no plan; unknown: stopped before it had a plan."""

OPTIMAL_GAP = 1e-4
"""A plan counts as optimal within this relative gap above a proven bound."""


def is_optimal(latency_s: float, bound_s: float | None) -> bool:
    """Whether a plan with that latency is as good as what is proven, if anything is."""
    return bound_s is not None and latency_s <= bound_s * (1 + OPTIMAL_GAP)


class Progress(NamedTuple):
    """What a callback is told.

    Attributes:
        evaluations, seconds: plans evaluated and time spent so far.
        latency_s: the best so far, in seconds; infinite before there is a plan.
        bound_s: the best bound that the search has proven so far, in seconds; None for none.
    """

    evaluations: int
    seconds: float
    latency_s: float
    bound_s: float | None = None

    @classmethod
    def of_state(cls, saved: Any) -> Progress:
        """What was saved as a list.

        Raises:
            ValueError: if it is no such list.
        """
        evaluations, seconds, latency_s, bound_s = saved
        return cls(whole(evaluations), number(seconds, 0.0), number(latency_s, 0.0), optional(bound_s, 0.0))


Callback = Callable[[Progress], None]


class Stint(NamedTuple):
    """What one of the agents that an agent runs found, and what it spent: a latency (infinite for none) in seconds."""

    agent: str
    latency_s: float
    evaluations: int
    seconds: float


class Verdict(NamedTuple):
    """What a search has proven: the outcome, if it has a plan, and a latency in seconds that no plan can beat.

    Attributes:
        outcome, bound_s: these.
        stints: which agents it let search, if any.
        interrupted: whether it ended because somebody interrupted it; who let it search should end as well.
    """

    outcome: Outcome = "feasible"
    bound_s: float | None = None
    stints: tuple[Stint, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True)
class Solution:
    """An agent's answer.

    Attributes:
        agent: its name.
        outcome: what is known of the plan, see `Outcome`.
        plan: the best valid plan found; None when the outcome is infeasible or unknown.
        report: what the environment's simulator says of the plan, without the noise of `MeasurementNoise`; where a
            black box is noisy itself, with the mean of the plan's measurements as latency.
        native_latency_s: the baseline of `speedup`. For one-shot environments the latency of the compiler's own
            heuristic, for mallocGame that of everything in the backing memory.
        bound_s: no plan of the kind the agent searches (for one-shot agents: one level for each tensor; for dynamic
            ones and mallocGame: any plan at all) is faster than this; proven. None where the agent proves nothing; the
            `traffic_bound_s` of the report holds in any case.
        history: each improvement of the best latency; where measurements are noisy each change of the plan believed
            best, with its true latency where that is known, so that it may rise.
        evaluations: plans evaluated, each population member, each batch row and each repeated measurement counted.
        seconds: wall time.
        seed: what all randomness came from.
        measurements: how many measurements the report's latency is the mean of, where a black box is noisy; None where
            the latency is exact.
        stints: of an agent that lets others search: who they were, in turn.
    """

    agent: str
    outcome: Outcome
    plan: MemoryPlan | None
    report: Report | None
    native_latency_s: float
    bound_s: float | None
    history: tuple[Progress, ...]
    evaluations: int
    seconds: float
    seed: int
    measurements: int | None = None
    stints: tuple[Stint, ...] = ()

    @property
    def found_by(self) -> str:
        """Whose plan it is: the agent, or the first of its stints that found one as good."""
        return min(self.stints, key=lambda stint: stint.latency_s).agent if self.stints else self.agent

    @property
    def speedup(self) -> float:
        """latency(baseline) / latency(plan); 0 without a plan."""
        return self.native_latency_s / self.report.latency_s if self.report else 0.0

    @property
    def gap(self) -> float | None:
        """latency(plan) / bound - 1, or None where either is missing."""
        return self.report.latency_s / self.bound_s - 1 if self.report and self.bound_s else None

    def summary(self) -> dict[str, Any]:
        """Plain JSON values: all but the plan and the arrays of the report."""
        return {
            "agent": self.agent,
            "found_by": self.found_by,
            "outcome": self.outcome,
            "speedup": self.speedup,
            "native_latency_s": self.native_latency_s,
            "bound_s": self.bound_s,
            "gap": self.gap,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "seed": self.seed,
            "measurements": self.measurements,
            "report": self.report.summary() if self.report else None,
        }
