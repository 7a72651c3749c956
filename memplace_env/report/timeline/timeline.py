"""The times of ops and copies: the simulator's rules again, with times instead of sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env.placement.simulator.builtin import ordered_copies
from memplace_env.placement.simulator.deadline_kernel import run_transfers
from memplace_env.placement.simulator.event.event_state import COPY
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.timeline.machine_times import event_spans


class Service(NamedTuple):
    """An interval, in ps, in which the backing memory's port works for one transfer of the plan."""

    transfer: int
    begin: int
    end: int


class Timeline(NamedTuple):
    """Times in ps since the start of the inference.

    Attributes:
        op_begin: int64[T + 1], begin of each op, after the stall before it; last, the begin of the tail.
        services: intervals in which copies are served, in order of time; they never overlap.
    """

    op_begin: Ints
    services: tuple[Service, ...]

    def stalled_by(self, op: int, stall_ps: int) -> list[int]:
        """Return the transfers that are finished in the stall before an op."""
        begin, end = self.op_begin[op] - stall_ps, self.op_begin[op]
        served = (service for service in self.services if service.begin < end and service.end > begin)
        return list(dict.fromkeys(service.transfer for service in served))


def timeline_of(task: Task, evaluated: EvaluatedPlan) -> Timeline:
    """Return the begin of each op and the service of each copy: earliest deadline first, late ones in stalls and tail.

    Within an op the backing memory first serves the op itself and then, in what is left of the op's time, the
    copies. The report gives the length of ops, stalls and tail. The event simulator says itself when copies are served.
    With another simulator's report the services are an approximation: copies fill its stalls and its tail as far as
    those reach, so that some may not be finished.
    """
    report, ops = evaluated.report, task.program.num_ops
    op_begin = np.append(np.cumsum(evaluated.op_ps) - report.op_time_ps, report.latency_ps - report.tail_ps)
    spans = event_spans(task, evaluated)
    if spans is not None:
        rows = np.flatnonzero((spans.kind == COPY) & (spans.end > spans.begin))
        found = np.stack([spans.number[rows], spans.begin[rows], spans.end[rows]], axis=1)
        return Timeline(op_begin, tuple(Service(*served) for served in found.tolist()))
    own = report.port_ps[:, task.backing]
    # The port is free for copies in 2T + 1 slots: 2t is the stall before op t, 2t + 1 the rest of op t, 2T the tail.
    # As stalls are slots too, no copy may force another: all are due at the end.
    rest = np.maximum(report.op_time_ps - own, 0)
    free = np.append(np.stack([report.stall_ps, rest], axis=1), report.tail_ps)
    begin = np.append(np.stack([op_begin[:-1] - report.stall_ps, op_begin[:-1] + own], axis=1), op_begin[-1])
    copies = ordered_copies(task, evaluated.plan)
    first = np.minimum(2 * copies.start + 1, 2 * ops)
    _, _, served = run_transfers(free, first, np.full_like(first, 2 * ops), copies.demand_ps)
    copy, slot, time = served[served[:, 1] % 2 == 1].T  # even numbers: no slot had the time
    slot = slot // 2
    before = np.cumsum(time) - time
    start = begin[slot] + before - before[np.searchsorted(slot, slot)]
    stretches = np.stack([copies.transfer[copy], start, start + time], axis=1)
    return Timeline(op_begin, tuple(Service(*stretch) for stretch in stretches.tolist()))
