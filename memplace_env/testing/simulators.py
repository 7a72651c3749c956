"""Check of a third party's simulator against its contract."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from memplace_env._lib.errors import SimulatorError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import (
    BatchSimulator,
    BuiltinSimulator,
    Report,
    Simulator,
    evaluate_plans,
    resolve_simulator,
)
from memplace_env.placement.simulator.evaluation import require_report
from memplace_env.placement.task import Task
from memplace_env.program.program import Program
from memplace_env.testing.instances import instances, pickled, plans_of


def check_simulator(
    simulator: str | Simulator,
    program: Program | None = None,
    accelerator: Accelerator | None = None,
    *,
    noisy: bool = False,
) -> None:
    """Raise an error for the first violation of a simulator's contract, if there is one.

    The simulator runs valid plans of a few small programs on different chips. Its reports must have the right types,
    shapes and ranges; the same plan must get the same report, from a pickled copy too, as environments in other
    processes have, and from `run_batch` if there is one; and the plan must not be changed. Errors of the simulator
    itself pass through.

    Args:
        simulator: the simulator, or the name of an installed one.
        program: a program instead of the small ones.
        accelerator: a chip instead of the shipped ones; needed for simulators that know one chip only.
        noisy: whether it measures, so that the same plan may get another latency each time; an attribute `noisy` of the
            simulator has the same effect.

    Raises:
        SimulatorError: naming the simulator, the field and what to do.

    Example:
        >>> from dataclasses import replace
        >>> class Derated(BuiltinSimulator):
        ...     def run(self, program, accelerator, plan):
        ...         report = super().run(program, accelerator, plan)
        ...         return replace(report, latency_ps=1.2 * report.latency_ps)
        >>> check_simulator(Derated())
        Traceback (most recent call last):
        memplace_env._lib.errors.SimulatorError: Simulator Derated: latency_ps must be an integer, not float; round it.
    """
    resolved = resolve_simulator(simulator) or BuiltinSimulator()
    noisy = noisy or bool(getattr(resolved, "noisy", False))
    subject = f"Simulator {type(resolved).__name__}"
    twin = pickled(resolved, subject, SimulatorError)
    for pair in instances(program, accelerator):
        task = make_task(*pair)
        plans, reports = list(plans_of(task)), []
        for plan in plans:
            before = plan.to_json()
            report = _report_of(resolved, task, plan)
            if plan.to_json() != before:
                raise SimulatorError(f"{subject} changes the plan that it runs; work on a copy.")
            _check_report(subject, task, report)
            reports.append(report)
            if not noisy:
                again, copied = (_report_of(each, task, plan) for each in (resolved, twin))
                _require_same(f"{subject} gives a plan another report the second time", again, report)
                _require_same(f"A pickled copy of {subject} gives another report", copied, report)
        if isinstance(resolved, BatchSimulator):
            together = evaluate_plans(replace(task, simulator=resolved), plans)
            for again, report in zip(together, reports, strict=True):
                _check_report(subject, task, again)
                if not noisy:
                    _require_same(f"{subject} gives another report in run_batch than in run", again, report)


def _report_of(simulator: Simulator, task: Task, plan: MemoryPlan) -> Report:
    """Return what `run` says, as `evaluate_plans` hands it on."""
    report = simulator.run(task.program, task.accelerator, plan)
    require_report(simulator, report)
    return report.sized(task.program.num_ops, tuple(level.name for level in task.accelerator.levels))


def _require_same(complaint: str, report: Report, expected: Report) -> None:
    for field in fields(Report):
        if not np.array_equal(getattr(report, field.name), getattr(expected, field.name)):
            raise SimulatorError(
                f"{complaint} ({field.name}); the same plan must always get the same report, or pass noisy=True."
            )


def _check_report(subject: str, task: Task, report: Report) -> None:
    ops, levels = task.program.num_ops, task.accelerator.num_levels
    for field in ("latency_ps", "tail_ps", "traffic_bound_ps"):
        value = getattr(report, field)
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise SimulatorError(f"{subject}: {field} must be an integer, not {type(value).__name__}; round it.")
    shapes = {
        "op_time_ps": (ops,),
        "compute_ps": (ops,),
        "port_ps": (ops, levels),
        "stall_ps": (ops,),
        "bound_by": (ops,),
        "bytes_moved": (levels,),
        "peak_bytes": (levels,),
    }
    for field, shape in shapes.items():
        array = np.asarray(getattr(report, field))
        if array.shape != shape or not np.issubdtype(array.dtype, np.integer):
            raise SimulatorError(
                f"{subject}: {field} must be integers of shape {shape}, not {array.dtype} of shape {array.shape}."
            )
        least = -1 if field == "bound_by" else 0
        if array.size and array.min() < least:
            raise SimulatorError(f"{subject}: {field} holds {array.min()}; the least that it can hold is {least}.")
    _check_values(subject, task, report)


def _check_values(subject: str, task: Task, report: Report) -> None:
    if report.tail_ps < 0:
        raise SimulatorError(f"{subject}: tail_ps is {report.tail_ps}; a time cannot be negative.")
    if not 1 <= report.traffic_bound_ps <= report.latency_ps:
        raise SimulatorError(
            f"{subject}: traffic_bound_ps {report.traffic_bound_ps} must lie in 1..latency_ps, which is "
            f"{report.latency_ps}; report 1 if the bound is unknown."
        )
    if report.bound_by.max(initial=-1) > task.backing:
        raise SimulatorError(f"{subject}: bound_by holds {report.bound_by.max()}; levels are 0..{task.backing}.")
    names = tuple(level.name for level in task.accelerator.levels)
    if tuple(report.level_names) != names:
        raise SimulatorError(f"{subject}: level_names is {report.level_names}; they are {names}.")
