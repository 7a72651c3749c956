"""A task, and a plan for it, in one line."""

from __future__ import annotations

from memplace_env.analysis.judged import Judged, native_baseline
from memplace_env.simulator import Report
from memplace_env.task import Task
from memplace_env.views.text.quantities import percent, ratio, seconds

MUCH_STALL = 0.05
"""Share of a latency spent waiting for copies from which on it is said beside it."""


def task_title(task: Task) -> str:
    """What is placed where: "BERT (int8) on nnp-i"."""
    return f"{task.program.name} ({task.program.dtype}) on {task.accelerator.name}"


def headline(task: Task, report: Report, baseline: Judged | None = None) -> str:
    """The title, the latency and the speed-up, over native's unless there is another baseline."""
    against = baseline or native_baseline(task)
    speedup = ratio(against.report.latency_ps / report.latency_ps)
    return f"{task_title(task)}: {seconds(report.latency_s)}, {speedup} over {against.name}"


def stall_note(report: Report) -> str:
    """What stands behind a latency or speed-up of which much is waiting for copies: " (24.4 % stall)"; else nothing."""
    share = report.stall_ps.sum() / report.latency_ps
    return f" ({percent(share)} stall)" if share >= MUCH_STALL else ""
