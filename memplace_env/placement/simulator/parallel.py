"""Many plans at once by a slow simulator: the same object in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from memplace_env._lib.processes import Crew
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator_report import Report, Simulator
from memplace_env.program.program import Program


@runtime_checkable
class Disturbed(Simulator, Protocol):
    """A noisy simulator that gives its exact reports and its noise apart.

    Exact reports may then come from anywhere, and the noise is drawn in one place and in order: the measurements are
    the same however many machines there are.
    """

    def exact(self) -> Simulator:
        """Return the same simulator without noise."""
        ...

    def disturbed(self, report: Report, accelerator: Accelerator) -> Report:
        """Return the next measurement of a plan with this exact report."""
        ...


class ParallelSimulator:
    """A `BatchSimulator` that spreads the plans of a batch over worker processes; single plans run in this one.

    Its reports are those of the simulator, bit by bit, whether that is deterministic or `Disturbed`. One that draws
    noise of its own in `run` is copied, generator and all: the draws of its workers, and their order, are not defined.
    Each worker gets simulator, program and chip once, and a plan at a time. Plans of a worker that dies are run by
    another one. Close it after use.

    Args:
        simulator: the simulator; it must pickle.
        workers: how many processes.

    Raises:
        WorkerError: if there are no workers.
    """

    def __init__(self, simulator: Simulator, workers: int) -> None:
        self.simulator, self.workers = simulator, workers
        self._crew = Crew(workers)
        self._work: _PlanWork | None = None

    @property
    def noisy(self) -> bool | None:
        """The attribute `noisy` of the simulator; None if it has none."""
        noisy: bool | None = getattr(self.simulator, "noisy", None)
        return noisy

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Return the simulator's report of one plan."""
        return self.simulator.run(program, accelerator, plan)

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """Return the simulator's report of each of the plans."""
        work = self._work
        if work is None or work.program is not program or work.accelerator is not accelerator:
            simulator = self.simulator.exact() if isinstance(self.simulator, Disturbed) else self.simulator
            self._work = work = _PlanWork(simulator, program, accelerator)
        by_index = dict(self._crew.map_unordered(work, plans, lambda plan: f"a plan for {plan.program!r}"))
        reports = [by_index[index] for index in range(len(plans))]
        if isinstance(self.simulator, Disturbed):
            return [self.simulator.disturbed(report, accelerator) for report in reports]
        return reports

    def close(self) -> None:
        """End the workers; the next batch starts new ones."""
        self._crew.close()

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return self._crew.process_ids

    def __reduce__(self) -> tuple[Callable[[Simulator, int], ParallelSimulator], tuple[Simulator, int]]:
        """Pickle the simulator and the number of workers; a copy has workers of its own."""
        return ParallelSimulator, (self.simulator, self.workers)


@dataclass(eq=False)
class _PlanWork:
    """The function of a worker: run one plan of this program on this chip.

    It is sent once; in a worker, program and chip are the same objects for all plans, so that the caches of simulators
    stay valid.
    """

    simulator: Simulator
    program: Program
    accelerator: Accelerator

    def __call__(self, plan: MemoryPlan) -> Report:
        return self.simulator.run(self.program, self.accelerator, plan)
