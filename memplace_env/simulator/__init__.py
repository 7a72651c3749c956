"""Simulators: what a plan costs. Third parties plug in their own through `Simulator`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

from memplace_env.accelerator import Accelerator
from memplace_env.errors import MemPlaceError
from memplace_env.plan import MemoryPlan, require_valid
from memplace_env.simulator.builtin import BuiltinSimulator
from memplace_env.simulator.costs import Costs, cost_tables
from memplace_env.simulator.lower_bound import lower_bound
from memplace_env.simulator.report import Report
from memplace_env.workload.program import Program

__all__ = [
    "BuiltinSimulator",
    "Costs",
    "Report",
    "Simulator",
    "cost_tables",
    "lower_bound",
    "resolve_simulator",
    "simulate",
]

ENTRY_POINTS = "memplace.simulators"


@runtime_checkable
class Simulator(Protocol):
    """Anything that turns a valid plan into a Report; the same plan must always give the same one."""

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Cost of the plan, which the caller has validated."""
        ...


def simulate(
    program: Program, accelerator: Accelerator, plan: MemoryPlan, simulator: Simulator | None = None
) -> Report:
    """Validate a plan, then time it.

    Raises:
        PlanError: if the plan is not valid for this program and accelerator.
    """
    require_valid(program, accelerator, plan)
    return (simulator or BuiltinSimulator()).run(program, accelerator, plan)


def resolve_simulator(simulator: str | Simulator | None) -> Simulator:
    """A simulator from None or "builtin", the name of an installed `memplace.simulators` entry point, or itself.

    Raises:
        MemPlaceError: if no such simulator is installed or the object has no `run`.
    """
    if simulator is None or simulator == BuiltinSimulator.name:
        return BuiltinSimulator()
    if isinstance(simulator, str):
        installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
        if simulator not in installed:
            names = ", ".join([BuiltinSimulator.name, *sorted(installed)])
            raise MemPlaceError(f"No simulator is called {simulator!r}; installed: {names}.")
        made = installed[simulator].load()
        simulator = made() if isinstance(made, type) else made
    if not isinstance(simulator, Simulator):
        raise MemPlaceError(f"{simulator!r} is no simulator: it needs run(program, accelerator, plan) -> Report.")
    return simulator
