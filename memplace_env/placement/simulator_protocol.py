"""Simulators of third parties: the second way to plug in, for what cost arrays cannot express."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator_report import Report
from memplace_env.program.program import Program


@runtime_checkable
class Simulator(Protocol):
    """Any object that turns a valid plan into a Report.

    The same plan must always give the same one, unless an attribute `noisy` is True: the simulator measures, and agents
    repeat a measurement before they rely on it. Without the attribute they find out by running one plan twice.
    """

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Return the report of a plan, which the caller has validated."""
        ...


@runtime_checkable
class BatchSimulator(Simulator, Protocol):
    """A simulator that is faster with many plans at once; several plans to evaluate are passed together."""

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> Sequence[Report]:
        """Return the report of `run` for each of the plans, in their order."""
        ...
