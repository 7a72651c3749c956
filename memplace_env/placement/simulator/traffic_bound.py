"""The traffic bound: a latency that no valid plan can beat, from work and traffic that cannot be avoided.

It costs next to nothing and is weak where plans compete for room. An agent that proves more returns its own bound.
"""

from __future__ import annotations

import numpy as np

from memplace_env.machine.costs import whole_op_ps
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, Program, TensorKind


@derived
def traffic_bound_ps(task: Task) -> int:
    """Return picoseconds, the larger of two bounds, both of which hold for every plan.

    1. An op takes at least its compute time, and at least the least port time that any way of serving its uses
       gives it. Serial ports: each use at its cheapest level. Parallel ports: for weights w >= 0 over the levels
       with sum 1, the slowest port takes at least sum_u min_l w_l cost[u, l] (linear programming duality); w in
       proportion to the chip's read bandwidths or to its write bandwidths, whichever proves more. Any weights prove a
       bound, so this holds too where a cost model differs from the bandwidths.
    2. The backing memory's port must move every input and every graph output once, and every weight too where
       weights are streamed: by a use or by a copy, whichever is cheaper. Ops and copies never share that port, and
       a copy that hides in no op's leftover is paid as stall or tail.
    """
    floor = int(whole_op_ps(task.costs, _least_port_time(task)).sum())
    return max(floor, compulsory_traffic_ps(task), min(task.program.num_uses, 1))  # a use takes a picosecond or more


def _least_port_time(task: Task) -> Ints:
    """Return int64[T], the least time of each op's uses; latencies are left out, which keeps it a bound."""
    program, costs = task.program, task.costs
    if costs.serial:
        return _sum_by_op(program, costs.use_ps.min(axis=1))
    best = np.zeros(program.num_ops, dtype=np.int64)
    read, write = (
        np.array([getattr(level, rate) for level in task.accelerator.levels], dtype=np.float64)
        for rate in ("read_bytes_per_s", "write_bytes_per_s")
    )
    for weights in (read / read.sum(), write / write.sum()):
        # Shrunk by far more than the rounding errors, then rounded down: it stays a bound in floating point.
        shares = np.floor((costs.use_ps * weights).min(axis=1) * (1 - 1e-12)).astype(np.int64)
        best = np.maximum(best, _sum_by_op(program, shares))
    return best


def compulsory_traffic_ps(task: Task) -> int:
    """Return picoseconds in which the backing memory's port moves what every plan must move."""
    program, costs = task.program, task.costs
    backing = costs.use_ps[:, task.backing]
    reads, cheapest_read = ~program.use_is_result, np.full(program.num_tensors, np.iinfo(np.int64).max)
    np.minimum.at(cheapest_read, program.use_tensor[reads], backing[reads])
    written = np.zeros(program.num_tensors, dtype=np.int64)
    written[program.use_tensor[~reads]] = backing[~reads]
    kind = program.tensor_kind
    must_read = (kind == TensorKind.INPUT) | ((kind == TensorKind.WEIGHT) & task.streams_weights)
    must_write = kind == TensorKind.OUTPUT
    total = np.minimum(cheapest_read, costs.prefetch_ps)[must_read].sum()
    return int(total + np.minimum(written, costs.writeback_ps)[must_write].sum())


def _sum_by_op(program: Program, values: Ints) -> Ints:
    total = np.concatenate([[0], np.cumsum(values)])
    return np.asarray(total[program.use_ptr[1:]] - total[program.use_ptr[:-1]])
