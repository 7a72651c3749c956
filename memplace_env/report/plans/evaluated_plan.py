"""A plan with its report, the input of most tables and pictures, and the result of one stage of a search."""

from __future__ import annotations

from typing import NamedTuple

from memplace_env.placement.compiler import all_backing, all_backing_report, native_plan, native_report
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class EvaluatedPlan(NamedTuple):
    """A valid plan, the report on it by the task's simulator, and its name in tables and pictures."""

    plan: MemoryPlan
    report: Report
    name: str = "this plan"

    @property
    def op_ps(self) -> Ints:
        """Time of each op with the stall before it in ps, int64[T]."""
        return self.report.op_time_ps + self.report.stall_ps

    @property
    def lost_ps(self) -> int:
        """Time of the whole inference that memory costs in ps, stalls and tail included."""
        return int(self.report.memory_loss_ps.sum()) + self.report.tail_ps

    @property
    def waits_ps(self) -> int:
        """All stalls and the tail in ps: time in which only copies run."""
        return int(self.report.stall_ps.sum()) + self.report.tail_ps


def native_baseline(task: Task) -> EvaluatedPlan:
    """Return the native compiler's plan, the baseline of one-shot plans."""
    return EvaluatedPlan(native_plan(task), native_report(task), "native")


def all_backing_baseline(task: Task) -> EvaluatedPlan:
    """Return the plan with everything in the backing memory, the baseline of games."""
    return EvaluatedPlan(all_backing(task), all_backing_report(task), "all in backing memory")


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
