"""Evaluation of plans by the task's simulator or its cost arrays, with checks of what a simulator returns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real

from memplace_env._lib.errors import SimulatorError
from memplace_env._lib.foreign import described, message_of
from memplace_env._lib.plugins import SIMULATORS, load_plugin
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.builtin import BuiltinSimulator, time_plan
from memplace_env.placement.simulator.event import EventSimulator
from memplace_env.placement.simulator.parallel import ParallelSimulator
from memplace_env.placement.simulator_report import BatchSimulator, Report, Simulator
from memplace_env.placement.task import Task
from memplace_env.placement.validation import require_valid


def evaluate_plan(task: Task, plan: MemoryPlan, *, trusted: bool = False) -> Report:
    """Return the report of the task's simulator, or else of its cost arrays, for a plan.

    Args:
        task: the task.
        plan: a plan for it.
        trusted: whether the plan is known to be valid and need not be checked again.

    Raises:
        PlanError: if the plan is not valid.
        SimulatorError: if the simulator fails, or returns an impossible report.
    """
    if not trusted:
        require_valid(task, plan)
    return evaluate_plans(task, [plan])[0]


def evaluate_plans(task: Task, plans: Sequence[MemoryPlan]) -> list[Report]:
    """Return the reports of the task's simulator, or else of its cost arrays, for plans that are known to be valid.

    Several plans go to the simulator's `run_batch` together if it has one. They carry the task's settings: those
    in a third party's file may name anything.

    Raises:
        SimulatorError: if the simulator fails, or returns an impossible report.
    """
    simulator = task.simulator
    if simulator is None:
        return [time_plan(task, plan) for plan in plans]
    name, where = _name(simulator), (task.program, task.accelerator)
    plans = [plan if plan.settings == task.settings else replace(plan, settings=task.settings) for plan in plans]
    try:
        if len(plans) > 1 and isinstance(simulator, BatchSimulator):
            reports = list(simulator.run_batch(*where, plans))
        else:
            reports = [simulator.run(*where, plan) for plan in plans]
    except Exception as failure:  # whatever a third party's code may raise
        raise SimulatorError(
            f"{name} raised {type(failure).__name__} on a valid plan: {message_of(failure)}"
        ) from failure
    if len(reports) != len(plans):
        raise SimulatorError(
            f"{name} returned {len(reports)} reports for {len(plans)} plans; run_batch must return one each."
        )
    for report in reports:
        require_report(simulator, report)
    levels = tuple(level.name for level in task.accelerator.levels)
    return [report.sized(task.program.num_ops, levels) for report in reports]


def require_report(simulator: Simulator, report: object) -> None:
    """Raise a SimulatorError unless it is a Report with a possible latency and energy."""
    name = _name(simulator)
    if not isinstance(report, Report):
        kind = type(report).__name__
        raise SimulatorError(f"{name} returned {kind}; it must return memplace_env.Report, see its docstring.")
    if not _is_finite(report.latency_ps) or report.latency_ps <= 0:
        raise SimulatorError(
            f"{name}: latency_ps is {described(report.latency_ps)}; it must be a number of picoseconds above 0."
        )
    if not _is_finite(report.energy_j) or report.energy_j < 0:
        energy = described(report.energy_j)
        raise SimulatorError(f"{name}: energy_j is {energy}; report joules, or 0.0 if it is unknown.")


def _name(simulator: Simulator) -> str:
    """Return the name of a simulator in messages: its class."""
    inner = simulator.simulator if isinstance(simulator, ParallelSimulator) else simulator
    return f"Simulator {type(inner).__name__}"


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def resolve_simulator(simulator: str | Simulator | None) -> Simulator | None:
    """Return a black box from "event" or the name of an installed `memplace.simulators` entry point, or itself.

    None, "builtin" and a `BuiltinSimulator()` without costs of its own mean the task's cost arrays, so there is None.

    Raises:
        SimulatorError: if no such simulator is installed, the object has no `run`, or it is a class.
    """
    if simulator is None or (isinstance(simulator, str) and simulator == BuiltinSimulator.name):
        return None
    if type(simulator) is BuiltinSimulator and simulator.model is None:
        return None
    if isinstance(simulator, str) and simulator == EventSimulator.name:
        return EventSimulator()
    if isinstance(simulator, str):
        simulator = load_plugin(
            SIMULATORS, simulator, "simulator", [BuiltinSimulator.name, EventSimulator.name], SimulatorError
        )
    if not isinstance(simulator, Simulator):
        name = described(simulator)
        raise SimulatorError(f"{name} is not a simulator: it needs run(program, accelerator, plan) -> Report.")
    if isinstance(simulator, type):
        raise SimulatorError(f"{simulator.__name__} is a class; pass an object of it, {simulator.__name__}(...).")
    return simulator
