"""The progress of a search and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from memplace_agents.optimality import Proof
from memplace_agents.saved_values import number, optional, whole
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report
from memplace_env.report.plans.evaluated_plan import StageResult

Outcome = Literal["optimal", "feasible", "infeasible", "unknown"]
"""optimal: nothing better exists among what the agent searched, proven; feasible: a valid plan, nothing proven about
it or a gap left; infeasible: proven that no plan exists; unknown: stopped before it had a plan."""


class Progress(NamedTuple):
    """Progress of a search, the argument of callbacks.

    Attributes:
        evaluations, seconds: number of plans evaluated and time spent so far.
        latency_s: best latency so far in seconds; infinite before there is a plan.
        bound_s: best bound proven so far in seconds; None if nothing is proven.
    """

    evaluations: int
    seconds: float
    latency_s: float
    bound_s: float | None = None

    @classmethod
    def of_state(cls, saved: Any) -> Progress:
        """Return the progress that was saved as a list.

        Raises:
            ValueError: if the value is no such list.
        """
        evaluations, seconds, latency_s, bound_s = saved
        return cls(whole(evaluations), number(seconds, 0.0), number(latency_s, 0.0), optional(bound_s, 0.0))


Callback = Callable[[Progress], None]
"""Called after each round of evaluations and with each new bound; an exception from it ends the search."""


class Verdict(NamedTuple):
    """The proof of a search, returned by `Agent.run`.

    Attributes:
        outcome: see `Outcome`; it counts only if the search has a plan.
        bound_s: lower bound in seconds on the latency of all plans of the kind searched; None if nothing is proven.
        stage_results: results of the stages, if the search has stages.
        proof: how the bound was proven; None if that is unknown.
        interrupted: True if an interrupt ended the search; a search of which it is a stage should end too.
    """

    outcome: Outcome = "feasible"
    bound_s: float | None = None
    stage_results: tuple[StageResult, ...] = ()
    interrupted: bool = False
    proof: Proof | None = None


@dataclass(frozen=True)
class Solution:
    """The result of an agent.

    Attributes:
        agent: name of the agent.
        outcome: the strongest statement that is proven about the plan, see `Outcome`.
        plan: the best valid plan; None if the outcome is infeasible or unknown.
        report: report of the environment's simulator on the plan, without the noise of `MeasurementNoise`. If a black
            box is noisy itself, its latency is the mean of the plan's measurements; with a budget of one measurement
            all else may be by the cost arrays.
        native_latency_s: baseline of `speedup` in seconds: in one-shot environments the latency of the compiler's own
            heuristic, in mallocGame that of everything in the backing memory.
        bound_s: proven lower bound in seconds on the latency of all plans of the kind searched (one-shot agents: one
            level for each tensor; dynamic ones and mallocGame: any plan). None if the agent proves nothing; the
            `traffic_bound_s` of the report holds in any case.
        history: each improvement of the best latency. If measurements are noisy: each change of the incumbent, with its
            true latency if that is known, so that it may rise.
        evaluations: number of plans evaluated; each population member, batch row and repeated measurement counts.
        seconds: wall-clock time.
        seed: seed of all randomness.
        measurements: number of measurements of which the report's latency is the mean, if a black box is noisy; None if
            the latency is exact.
        stage_results: results of the stages in turn, if the agent has stages.
        proof: how the bound was proven; None if that is unknown.
        backing_port_s: seconds for which the plan's uses and copies keep the backing memory's port busy; None without a
            plan.
        backing_port_before_s: the same of the plan that was found, if a tie-break replaced it by one that is as fast;
            None if not.
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
    stage_results: tuple[StageResult, ...] = ()
    backing_port_s: float | None = None
    backing_port_before_s: float | None = None
    proof: Proof | None = None

    @property
    def found_by(self) -> str:
        """Name of the agent that found the plan; with stages, of the first one that found a plan as good."""
        return min(self.stage_results, key=lambda result: result.latency_s).name if self.stage_results else self.agent

    @property
    def latency_s(self) -> float | None:
        """Latency of the plan in seconds, as the report says; None without a plan."""
        return self.report.latency_s if self.report else None

    @property
    def speedup(self) -> float:
        """latency(baseline) / latency(plan); 0 without a plan."""
        return self.native_latency_s / self.report.latency_s if self.report else 0.0

    @property
    def gap(self) -> float | None:
        """latency(plan) / bound - 1; None if either is missing."""
        return self.report.latency_s / self.bound_s - 1 if self.report and self.bound_s else None

    def summary(self) -> dict[str, Any]:
        """Return plain JSON values of everything but the plan and the arrays of the report."""
        names = ("agent", "found_by", "outcome", "speedup", "native_latency_s", "bound_s", "gap")
        spent = ("evaluations", "seconds", "seed", "measurements", "backing_port_s", "backing_port_before_s")
        report = self.report.summary() if self.report else None
        proof = self.proof.summary() if self.proof else None
        return {name: getattr(self, name) for name in (*names, *spent)} | {"proof": proof, "report": report}
