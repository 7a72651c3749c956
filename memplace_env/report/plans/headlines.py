"""A task, and a plan for it, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from memplace_env._lib.foreign import described
from memplace_env.placement.simulator import BuiltinSimulator, Report
from memplace_env.placement.task import Task
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, native_baseline
from memplace_env.report.quantities import percent, ratio, seconds

MUCH_STALL = 0.05
"""Fraction of a latency spent waiting for copies from which on notes mention it."""


def task_title(task: Task) -> str:
    """Return the program, its dtype and the chip: "BERT (int8) on nnp-i", and whether the ops have another order."""
    order = ", ops in an order of their own" if "order" in task.settings else ""
    return f"{task.program.name} ({task.program.dtype}) on {task.accelerator.name}{order}"


def headline(task: Task, report: Report, baseline: EvaluatedPlan | None = None) -> str:
    """Return the title, the latency and the speed-up, over native's unless there is another baseline."""
    against = baseline or native_baseline(task)
    speedup = ratio(against.report.latency_ps / report.latency_ps)
    return f"{task_title(task)}: {seconds(report.latency_s)}, {speedup} over {against.name}"


def simulator_notes(task: Task, plans: Sequence[EvaluatedPlan]) -> list[str]:
    """Return a sentence for each plan that was found with another simulator than the task's, which times it here."""
    here = simulator_name(task)
    found_with = [(plan.name, plan.plan.settings.get("simulator", BuiltinSimulator.name)) for plan in plans]
    times = f"All times are by the simulator {here!r}"
    return [f"{times}; {name} was found with {described(found)}." for name, found in found_with if found != here]


def simulator_name(task: Task) -> str:
    """Return the name of the simulator that times plans, or of its class if it was passed as an object."""
    return str(task.settings.get("simulator", BuiltinSimulator.name))


def stall_note(report: Report) -> str:
    """Return a note on a latency with much waiting for copies, " (24.4 % stall)"; else an empty text."""
    share = report.stall_ps.sum() / report.latency_ps
    return f" ({percent(share)} stall)" if share >= MUCH_STALL else ""
