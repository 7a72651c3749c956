"""A plan and what a simulator says of it, which most of what is shown of plans needs together."""

from __future__ import annotations

from typing import NamedTuple

from memplace_env.compiler import all_backing, all_backing_report, native_plan, native_report
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.task import Task
from memplace_env.workload.program import Ints


class Judged(NamedTuple):
    """A valid plan, the report on it by the task's simulator, and what tables and pictures call it."""

    plan: MemoryPlan
    report: Report
    name: str = "this plan"

    @property
    def op_ps(self) -> Ints:
        """int64[T], time of each op with the stall before it."""
        return self.report.op_time_ps + self.report.stall_ps

    @property
    def lost_ps(self) -> int:
        """Time of the whole inference that memory costs, stalls and tail included."""
        return int(self.report.memory_loss_ps.sum()) + self.report.tail_ps

    @property
    def waits_ps(self) -> int:
        """All stalls and the tail: time in which nothing but copies runs."""
        return int(self.report.stall_ps.sum()) + self.report.tail_ps


def native_baseline(task: Task) -> Judged:
    """The native compiler's plan, which one-shot plans are measured against."""
    return Judged(native_plan(task), native_report(task), "native")


def all_backing_baseline(task: Task) -> Judged:
    """The plan with everything in the backing memory, which games are measured against."""
    return Judged(all_backing(task), all_backing_report(task), "all in backing memory")
