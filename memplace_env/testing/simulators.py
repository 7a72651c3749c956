"""Whether a third party's simulator keeps to its contract."""

from __future__ import annotations

from dataclasses import fields, replace

import cloudpickle
import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.errors import SimulatorError
from memplace_env.resolve import make_task
from memplace_env.simulator import BatchSimulator, BuiltinSimulator, Report, Simulator, judge_plans, resolve_simulator
from memplace_env.simulator.judge import require_report
from memplace_env.task import Task
from memplace_env.testing.instances import instances, plans_of
from memplace_env.workload.program import Program


def check_simulator(
    simulator: str | Simulator,
    program: Program | None = None,
    accelerator: Accelerator | None = None,
    *,
    noisy: bool = False,
) -> None:
    """Raise an error that says what is wrong with a simulator, if anything is.

    It is given valid plans of a few small programs on different chips. Its reports must have the right types, shapes
    and ranges; the same plan must get the same report, from a pickled copy too, as environments in other processes
    have, and from `run_batch` if there is one; and the plan must be left as it was. What the simulator itself raises
    passes through.

    Args:
        simulator: the simulator, or the name of an installed one.
        program: tried instead of the small ones.
        accelerator: tried instead of the shipped chips; needed for simulators that know one chip only.
        noisy: whether it measures, so that the same plan may get another latency each time; its attribute `noisy`
            says so too.

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
        memplace_env.errors.SimulatorError: Simulator Derated: latency_ps must be an integer, not float; round it.
    """
    found = resolve_simulator(simulator) or BuiltinSimulator()
    noisy = noisy or bool(getattr(found, "noisy", False))
    named = f"Simulator {type(found).__name__}"
    twin = _pickled(found, named)
    for pair in instances(program, accelerator):
        task = make_task(*pair)
        plans, reports = list(plans_of(task)), []
        for plan in plans:
            before = plan.to_json()
            report = found.run(*pair, plan)
            if plan.to_json() != before:
                raise SimulatorError(f"{named} changes the plan that it is given; work on a copy.")
            require_report(found, report)
            _check_report(named, task, report)
            reports.append(report)
            if not noisy:
                _require_same(
                    f"{named} says something else of a plan when it is asked again", found.run(*pair, plan), report
                )
                _require_same(f"A pickled copy of {named} says something else", twin.run(*pair, plan), report)
        if isinstance(found, BatchSimulator):
            together = judge_plans(replace(task, simulator=found), plans)
            for again, report in zip(together, reports, strict=True):
                _check_report(named, task, again)
                if not noisy:
                    _require_same(f"{named} says something else in run_batch than in run", again, report)


def _require_same(complaint: str, report: Report, expected: Report) -> None:
    for field in fields(Report):
        if not np.array_equal(getattr(report, field.name), getattr(expected, field.name)):
            raise SimulatorError(
                f"{complaint} ({field.name}); the same plan must always get the same report, or pass noisy=True."
            )


def _check_report(named: str, task: Task, report: Report) -> None:
    ops, levels = task.program.num_ops, task.accelerator.num_levels
    for field in ("latency_ps", "tail_ps", "traffic_bound_ps"):
        value = getattr(report, field)
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise SimulatorError(f"{named}: {field} must be an integer, not {type(value).__name__}; round it.")
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
                f"{named}: {field} must be integers of shape {shape}, not {array.dtype} of shape {array.shape}."
            )
        if array.size and array.min() < (-1 if field == "bound_by" else 0):
            raise SimulatorError(f"{named}: {field} holds {array.min()}; nothing there can be negative.")
    _check_values(named, task, report)


def _check_values(named: str, task: Task, report: Report) -> None:
    if report.tail_ps < 0:
        raise SimulatorError(f"{named}: tail_ps is {report.tail_ps}; a time cannot be negative.")
    if not 1 <= report.traffic_bound_ps <= report.latency_ps:
        raise SimulatorError(
            f"{named}: traffic_bound_ps {report.traffic_bound_ps} must lie in 1..latency_ps, which is "
            f"{report.latency_ps}; report 1 if nothing is known."
        )
    if report.bound_by.max(initial=-1) > task.backing:
        raise SimulatorError(f"{named}: bound_by holds {report.bound_by.max()}; levels are 0..{task.backing}.")
    names = tuple(level.name for level in task.accelerator.levels)
    if tuple(report.level_names) != names:
        raise SimulatorError(f"{named}: level_names is {report.level_names}; they are {names}.")


def _pickled(simulator: Simulator, named: str) -> Simulator:
    try:
        twin: Simulator = cloudpickle.loads(cloudpickle.dumps(simulator))
    except Exception as failure:  # whatever its parts raise
        raise SimulatorError(
            f"{named} cannot be pickled ({failure}); leave open files, processes and the like out of its pickled state."
        ) from failure
    return twin
