"""Simulators of third parties: the second way to plug one in, for what cost arrays cannot say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator.report import Report
from memplace_env.workload.program import Program


@runtime_checkable
class Simulator(Protocol):
    """Anything that turns a valid plan into a Report.

    The same plan must always give the same one, unless an attribute `noisy` is True: the simulator measures, and agents
    measure again before they believe it. Without the attribute they find out by asking twice about one plan.
    """

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Cost of the plan, which the caller has validated."""
        ...


@runtime_checkable
class BatchSimulator(Simulator, Protocol):
    """A simulator that does better with many plans at once; where several are to be judged, it gets them together."""

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> Sequence[Report]:
        """What `run` says of each of the plans, in their order."""
        ...
