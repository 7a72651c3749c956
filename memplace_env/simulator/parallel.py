"""Many plans at once where a slow simulator judges: the same object in several processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.processes import Crew
from memplace_env.simulator.protocol import Simulator
from memplace_env.simulator.report import Report
from memplace_env.workload.program import Program


@runtime_checkable
class Disturbed(Simulator, Protocol):
    """A noisy simulator that can be asked for its truth and for its noise apart.

    The truth may then be had anywhere, and the noise is drawn in one place and in order: the measurements are the same
    however many machines there are.
    """

    def exact(self) -> Simulator:
        """The same without noise."""
        ...

    def disturbed(self, report: Report, accelerator: Accelerator) -> Report:
        """The next measurement of a plan of which `exact` says this."""
        ...


class ParallelSimulator:
    """A `BatchSimulator` that spreads the plans of a batch over worker processes; single plans it judges itself.

    What it says is what the simulator says, bit by bit, whether that is deterministic or `Disturbed`. One that draws
    noise of its own in `run` is copied, generator and all: what its workers then draw, and in which order, is its own
    business. Each worker gets simulator, program and chip once, and a plan at a time. Plans of a worker that dies are
    judged by another one.

    Args:
        simulator: the simulator; it must pickle.
        workers: how many processes.

    Raises:
        WorkerError: if there are no workers.
    """

    def __init__(self, simulator: Simulator, workers: int) -> None:
        self.simulator, self.workers = simulator, workers
        self._crew = Crew(workers)
        self._judging: _Judging | None = None

    @property
    def noisy(self) -> bool | None:
        """What the simulator says of itself; None for nothing."""
        said: bool | None = getattr(self.simulator, "noisy", None)
        return said

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """What the simulator says of one plan."""
        return self.simulator.run(program, accelerator, plan)

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """What it says of each of the plans."""
        known = self._judging
        if known is None or known.program is not program or known.accelerator is not accelerator:
            judge = self.simulator.exact() if isinstance(self.simulator, Disturbed) else self.simulator
            self._judging = known = _Judging(judge, program, accelerator)
        said = dict(self._crew.each(known, plans, lambda plan: f"a plan for {plan.program!r}"))
        reports = [said[place] for place in range(len(plans))]
        if isinstance(self.simulator, Disturbed):
            return [self.simulator.disturbed(report, accelerator) for report in reports]
        return reports

    def close(self) -> None:
        """End the workers; the next batch starts new ones."""
        self._crew.close()

    @property
    def process_ids(self) -> list[int]:
        """Of the workers that there are."""
        return self._crew.process_ids

    def __reduce__(self) -> tuple[Callable[[Simulator, int], ParallelSimulator], tuple[Simulator, int]]:
        """A copy has workers of its own."""
        return ParallelSimulator, (self.simulator, self.workers)


def in_parallel(simulator: Simulator, workers: int) -> ParallelSimulator:
    """The simulator, with so many processes for each batch of plans; close it after use."""
    return ParallelSimulator(simulator, workers)


@dataclass(eq=False)
class _Judging:
    """What a worker knows: who judges, and what the plans are for.

    It travels once; in a worker, program and chip are the same objects for all plans, so that what simulators keep of
    them holds.
    """

    simulator: Simulator
    program: Program
    accelerator: Accelerator

    def __call__(self, plan: MemoryPlan) -> Report:
        return self.simulator.run(self.program, self.accelerator, plan)
