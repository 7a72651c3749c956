"""Who judges plans, and what they say."""

from __future__ import annotations

from memplace_env.errors import SimulatorError
from memplace_env.plan import MemoryPlan, require_valid
from memplace_env.plugins import SIMULATORS, load_plugin
from memplace_env.simulator.builtin import BuiltinSimulator, time_plan
from memplace_env.simulator.protocol import Simulator
from memplace_env.simulator.report import Report
from memplace_env.task import Task


def judge_plan(task: Task, plan: MemoryPlan, *, trusted: bool = False) -> Report:
    """What the task's simulator, or else its cost arrays, say of a plan.

    Args:
        task: the task.
        plan: for it.
        trusted: whether the plan is known to be valid, so that checking it again would be a waste.

    Raises:
        PlanError: if the plan is not valid.
    """
    if not trusted:
        require_valid(task, plan)
    if task.simulator is None:
        return time_plan(task, plan)
    return task.simulator.run(task.program, task.accelerator, plan)


def resolve_simulator(simulator: str | Simulator | None) -> Simulator | None:
    """A black box from the name of an installed `memplace.simulators` entry point, or itself.

    None, "builtin" and a `BuiltinSimulator()` without costs of its own mean the task's cost arrays, so there is None.

    Raises:
        SimulatorError: if no such simulator is installed or the object has no `run`.
    """
    if simulator is None or simulator == BuiltinSimulator.name:
        return None
    if type(simulator) is BuiltinSimulator and simulator.model is None:
        return None
    if isinstance(simulator, str):
        simulator = load_plugin(SIMULATORS, simulator, "simulator", [BuiltinSimulator.name], SimulatorError)
    if not isinstance(simulator, Simulator):
        raise SimulatorError(f"{simulator!r} is no simulator: it needs run(program, accelerator, plan) -> Report.")
    return simulator
