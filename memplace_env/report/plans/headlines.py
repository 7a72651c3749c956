"""A task, and a plan for it, in one line."""

from __future__ import annotations

from memplace_env.placement.simulator import Report
from memplace_env.placement.task import Task
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, native_baseline
from memplace_env.report.quantities import percent, ratio, seconds

MUCH_STALL = 0.05
"""Fraction of a latency spent waiting for copies from which on notes mention it."""


def task_title(task: Task) -> str:
    """Return the program, its dtype and the chip: "BERT (int8) on nnp-i"."""
    return f"{task.program.name} ({task.program.dtype}) on {task.accelerator.name}"


def headline(task: Task, report: Report, baseline: EvaluatedPlan | None = None) -> str:
    """Return the title, the latency and the speed-up, over native's unless there is another baseline."""
    against = baseline or native_baseline(task)
    speedup = ratio(against.report.latency_ps / report.latency_ps)
    return f"{task_title(task)}: {seconds(report.latency_s)}, {speedup} over {against.name}"


def stall_note(report: Report) -> str:
    """Return a note on a latency with much waiting for copies, " (24.4 % stall)"; else an empty text."""
    share = report.stall_ps.sum() / report.latency_ps
    return f" ({percent(share)} stall)" if share >= MUCH_STALL else ""
