"""When everything happens: the simulator's rules played again, op by op, with times instead of sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report, cost_tables
from memplace_env.workload.program import Ints, Program


class Service(NamedTuple):
    """A stretch of time, in ps, in which the backing memory's port works for one transfer of the plan."""

    transfer: int
    begin: int
    end: int


class Timeline(NamedTuple):
    """Times in ps since the start of the inference.

    Attributes:
        op_begin: int64[T + 1], when each op begins, after the stall before it; last, when the tail begins.
        services: when copies are served, in order of time; never two at once.
    """

    op_begin: Ints
    services: tuple[Service, ...]

    def stalled_by(self, op: int, stall_ps: int) -> list[int]:
        """Transfers that are finished in the stall before an op."""
        begin, end = self.op_begin[op] - stall_ps, self.op_begin[op]
        return list(dict.fromkeys(s.transfer for s in self.services if begin <= s.begin < end))


def timeline(program: Program, accelerator: Accelerator, plan: MemoryPlan, report: Report) -> Timeline:
    """Play the built-in simulator's rules for copies: earliest deadline first, late ones in stalls and the tail.

    Within an op the backing memory first serves the op itself and then, in what is left of the op's time, the
    copies. With another simulator's report the services are an approximation that fits its op times and stalls.
    """
    ends = np.cumsum(report.op_time_ps + report.stall_ps)
    op_begin = np.append(ends - report.op_time_ps, report.latency_ps - report.tail_ps)
    waiting = _copies(program, accelerator, plan)
    services: list[Service] = []
    for op in range(program.num_ops):
        begin, stall = int(op_begin[op]), int(report.stall_ps[op])
        services += _serve([copy for copy in waiting if copy.end < op], begin - stall, stall)
        own = int(report.port_ps[op, accelerator.backing])
        started = [copy for copy in waiting if copy.start <= op]
        services += _serve(started, begin + own, int(report.op_time_ps[op]) - own)
        waiting = [copy for copy in waiting if copy.left > 0]
    services += _serve(waiting, int(op_begin[-1]), report.tail_ps)
    return Timeline(op_begin, tuple(services))


@dataclass
class _Copy:
    """A transfer that is not finished: `left` is the port time it still needs, in ps."""

    transfer: int
    start: int
    end: int
    left: int


def _copies(program: Program, accelerator: Accelerator, plan: MemoryPlan) -> list[_Copy]:
    """All copies of the plan in the order in which the port prefers them."""
    costs = cost_tables(program, accelerator)
    copies = []
    for row, (tensor, source, _, start, end) in enumerate(plan.transfers.tolist()):
        demand = costs.prefetch_ps if source == accelerator.backing else costs.writeback_ps
        copies.append(_Copy(row, start, end, int(demand[tensor])))
    return sorted(copies, key=lambda copy: (copy.end, copy.start))


def _serve(copies: list[_Copy], begin: int, free: int) -> list[Service]:
    """Give the `free` ps from `begin` on to the copies, in order."""
    services = []
    for copy in copies:
        done = min(copy.left, free)
        if done > 0:
            services.append(Service(copy.transfer, begin, begin + done))
            copy.left -= done
            begin += done
            free -= done
    return services
