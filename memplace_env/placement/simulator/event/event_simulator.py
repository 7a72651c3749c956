"""`EventSimulator`: plans on a machine whose tiles, copies and memories overlap and wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from memplace_env._lib.threads import in_chunks
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.event_description import Mechanisms
from memplace_env.machine.costs import CostModel, OpTimes
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.builtin import BuiltinSimulator, report_of
from memplace_env.placement.simulator.event.event_kernel import run_events
from memplace_env.placement.simulator.event.event_state import COPY, SPAN
from memplace_env.placement.simulator.event.event_tables import TaskTables, plan_tables, task_tables
from memplace_env.placement.simulator.traffic_bound import compulsory_traffic_ps, traffic_bound_ps
from memplace_env.placement.simulator_report import Report
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, Program

_NO_SPANS = np.empty((0, len(SPAN)), dtype=np.int64)


class EventSimulator:
    """The simulator `event`: every nominal time stays what the costs say, and mechanisms decide what overlaps.

    - Tiles: an op, its overhead included, is cut into tiles of equal shares. Each is loaded, goes through the unit and
      is stored; a ring of buffers goes on across ops. Loads of what the op before makes wait for that op.
    - Ports are queues, shared by the requests of ops and, at the backing memory, by copies.
    - DMA engines run copies by descriptors. Without them copies fill the gaps of the backing memory's port.
    - DRAM: a request to the bank of the one before, and a change between reads and writes, cost extra.
    - A copy may begin when the op before its window has ended; an op waits for the copies whose windows ended before.

    Each is on where the chip's description has its section. With none it is the built-in simulator, to the picosecond.
    In a report an op's time is what passes between the end of the op before, or of the copies that it waited for, and
    its own end; ports' times include what banks add. No published figure isolates these interactions: it is a
    plausible machine, not a validated one, see docs/model.md.

    Args:
        costs: name of a cost model, or one; None takes the one in the plan's settings, else the accelerator's.
        mechanisms: instead of the chip's own.
    """

    name = "event"
    noisy = False

    def __init__(self, costs: str | CostModel | None = None, mechanisms: Mechanisms | None = None) -> None:
        self.mechanisms = mechanisms
        self._builtin = BuiltinSimulator(costs)
        self._last: tuple[Task, TaskTables] | None = None

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Time a plan that is known to be valid; `memplace_env.simulate` checks first."""
        return self.run_batch(program, accelerator, [plan])[0]

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """Time plans that are known to be valid, on all cores."""
        if not plans:
            return []
        found: list[Report | None] = [None] * len(plans)
        # Tables are made before threads share them.
        tasks = [self._builtin.task_of(program, accelerator, plan) for plan in plans]
        for task in tasks:
            self._tables(task)
            overlap_bound_ps(task), traffic_bound_ps(task)

        def time(first: int, last: int) -> None:
            for row in range(first, last):
                found[row] = self._report(tasks[row], plans[row])

        in_chunks(time, len(plans), least_each=4)
        return [report for report in found if report is not None]

    def spans(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> EventSpans:
        """Return what happens when in a run of a valid plan, for pictures."""
        task = self._builtin.task_of(program, accelerator, plan)
        count = self._run(task, plan, _NO_SPANS)[-1]
        rows = np.empty((count, len(SPAN)), dtype=np.int64)
        self._run(task, plan, rows)
        copies = rows[:, 0] >= COPY
        rows[copies, 1] = plan_tables(task, self._tables(task), plan).copies.transfer[rows[copies, 1]]
        return EventSpans(*rows.T)

    def __reduce__(self) -> tuple[type[EventSimulator], tuple[CostModel | None, Mechanisms | None]]:
        """Pickle the options; a copy makes its own tables."""
        return EventSimulator, (self._builtin.model, self.mechanisms)

    def mechanisms_of(self, task: Task) -> Mechanisms:
        """Return the mechanisms that are on: those passed, or else the chip's."""
        return task.accelerator.mechanisms if self.mechanisms is None else self.mechanisms

    def _tables(self, task: Task) -> TaskTables:
        last = self._last
        if last is None or last[0] is not task:
            self._last = last = task, task_tables(task, self.mechanisms_of(task))
        return last[1]  # another thread may have replaced `self._last`

    def _run(self, task: Task, plan: MemoryPlan, spans: Ints) -> tuple[tuple[Ints, Ints, Ints, Ints], int, int]:
        tables = self._tables(task)
        made = plan_tables(task, tables, plan)
        copies = made.copies
        found: tuple[tuple[Ints, Ints, Ints, Ints], int, int] = run_events(
            (task.costs.compute_ps, task.costs.overhead_ps, task.costs.serial),
            (*made[:3], copies.start, copies.end, copies.demand_ps, *made[4:]),
            tables.tiles,
            tables.switches,
            tables.dram,
            spans,
        )
        return found

    def _report(self, task: Task, plan: MemoryPlan) -> Report:
        (op_ps, memory_ps, port_ps, stall_ps), tail_ps, _ = self._run(task, plan, _NO_SPANS)
        bound_ps = overlap_bound_ps(task) if self.mechanisms_of(task).tiles else traffic_bound_ps(task)
        return report_of(task, plan, OpTimes(op_ps, memory_ps, port_ps), stall_ps, int(tail_ps), bound_ps)


@derived
def overlap_bound_ps(task: Task) -> int:
    """Return picoseconds: the most work that any plan leaves to one resource of the event simulator.

    The unit does each op's work, one op after the other. Ports do at least what serving each use at its cheapest level
    takes: serial ones together; of parallel ones the slowest takes at least sum_u min_l w_l cost[u, l] for any weights
    w >= 0 with sum 1 (linear programming duality), taken in proportion to the read and to the write bandwidths. The
    backing memory's port moves every input, output and streamed weight once. `traffic_bound_ps` adds the larger of unit
    and ports up op by op, which does not hold where the loads of an op run beside the unit of another.
    """
    costs = task.costs
    bounds = [int(costs.work_ps.sum()), compulsory_traffic_ps(task), min(task.program.num_uses, 1)]
    if costs.serial:
        return max(*bounds, int(costs.use_ps.min(axis=1).sum()))
    for rate in ("read_bytes_per_s", "write_bytes_per_s"):
        rates = np.array([getattr(level, rate) for level in task.accelerator.levels], dtype=np.float64)
        # Shrunk by far more than the rounding errors: it stays a bound in floating point.
        least = (costs.use_ps * (rates / rates.sum())).min(axis=1) * (1 - 1e-12)
        bounds.append(int(np.floor(least).sum()))
    return max(bounds)


class EventSpans(NamedTuple):
    """Intervals in which a port, the unit or an engine is at work, in the order in which they were begun.

    Attributes:
        kind: int64[S], `LOAD`, `UNIT`, `WRITE`, `COPY` or `ENGINE` of `event_state`.
        number: int64[S], the op; of a copy its row in the plan's transfers.
        part: int64[S], tile of the op, or descriptor of the copy.
        level: int64[S], the level whose port is busy; of `ENGINE` number of the engine; -1: the unit.
        begin, end: int64[S], picoseconds since the start of the inference.
    """

    kind: Ints
    number: Ints
    part: Ints
    level: Ints
    begin: Ints
    end: Ints
