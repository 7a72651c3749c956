"""The deadline rule, and the bytes in blocks by op and level, as compiled loops."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from memplace_env._lib.kernel import kernel


@kernel
def run_transfers(leftover_ps, start, end, demand_ps):
    """Play the copies against the backing port's free time; copies come ordered by (end, start, plan order).

    Before op t, copies due earlier are finished at full bandwidth (the deadline rule, the only source of stalls);
    during op t the started ones share its leftover, earliest deadline first; after the last op the rest is finished.

    Args:
        leftover_ps: int64[T], time that each op leaves of the backing memory's port.
        start, end, demand_ps: int64[M], of the copies.

    Returns:
        stall_ps int64[T]; tail_ps; and int64[S, 3], in order of time, each stretch in which the port serves a copy:
        number of the copy, 2t before op t and 2t + 1 during it (2T in the tail), picoseconds.
    """
    ops, copies = len(leftover_ps), len(demand_ps)
    stall = np.zeros(ops, dtype=np.int64)
    left = demand_ps.copy()
    # Each stretch ends a copy or uses up an op's leftover, so these rows are enough.
    served, count = np.empty((ops + 2 * copies, 3), dtype=np.int64), 0
    by_start = np.argsort(start, kind="mergesort")
    # Copies that have started, as a heap of their numbers: they come by deadline, so that the earliest is on top. The
    # empty comprehension gives numba the type of its elements.
    waiting = [np.int64(0) for _ in range(0)]
    first, begun = 0, 0
    # Before each op, copies before `first` are finished and those of by_start[:begun] have been in the heap.
    for op in range(ops):
        # Copies come by deadline: those due before this op are finished at full bandwidth, and the op waits.
        while first < copies and (left[first] == 0 or end[first] < op):
            if left[first] > 0:
                stall[op] += left[first]
                served[count, 0], served[count, 1], served[count, 2] = first, 2 * op, left[first]
                count += 1
                left[first] = 0
            first += 1
        while begun < copies and start[by_start[begun]] <= op:
            heappush(waiting, by_start[begun])
            begun += 1
        free = leftover_ps[op]
        # Each pass ends the copy on top, or the op's leftover. A copy that ended as a stall is dropped when it is met.
        while free > 0 and len(waiting) > 0:
            soonest = waiting[0]
            done = min(free, left[soonest])
            if done > 0:
                served[count, 0], served[count, 1], served[count, 2] = soonest, 2 * op + 1, done
                count += 1
                left[soonest] -= done
                free -= done
            if left[soonest] == 0:
                heappop(waiting)
    tail = left.sum()
    # What no op waited for and no leftover served is finished after the last op.
    for late in range(first, copies):
        if left[late] > 0:
            served[count, 0], served[count, 1], served[count, 2] = late, 2 * ops, left[late]
            count += 1
    return stall, tail, served[:count]


@kernel
def run_on_ports(leftover_ps, port, start, end, demand_ps):
    """Play copies as `run_transfers` does where each takes the time of a port of its own.

    All ports work while an op waits for one of them, so that a stall lasts as long as the port with most to finish.

    Args:
        leftover_ps: int64[T, L], time that each op leaves of each port.
        port, start, end, demand_ps: int64[M], of the copies.

    Returns:
        As `run_transfers`; stretches in order of time at each port.
    """
    (ops, ports), copies, left = leftover_ps.shape, len(demand_ps), demand_ps.copy()
    wait, free = np.zeros(ops + 1, dtype=np.int64), np.empty(ports, dtype=np.int64)
    # Each stretch ends a copy or uses up a port's time in a slot.
    served, count = np.empty((copies + ports * (2 * ops + 1), 3), dtype=np.int64), 0
    # Slot 2t is the wait before op t, 2t + 1 op t itself, 2T the tail.
    for slot in range(2 * ops + 1):
        op = slot // 2
        if slot % 2:
            for level in range(ports):
                free[level] = leftover_ps[op, level]
        else:
            free[:] = 0
            for copy in range(copies):
                if end[copy] < op or op == ops:
                    free[port[copy]] += left[copy]
            wait[op] = free.max()
            free[:] = wait[op]
        # Copies come by deadline, and those begun have their port's time in this order.
        for copy in range(copies):
            done = min(free[port[copy]], left[copy])
            if done > 0 and (start[copy] < op + slot % 2 or op == ops):
                served[count, 0], served[count, 1], served[count, 2] = copy, slot, done
                count += 1
                free[port[copy]] -= done
                left[copy] -= done
    return wait[:ops], wait[ops], served[:count]


@kernel
def add_blocks(change, allocations, tensor_bytes):
    """Add a plan's blocks to int64[T + 2, L], by how much the bytes in blocks change at each op and level."""
    for row in range(len(allocations)):
        size, level = tensor_bytes[allocations[row, 0]], allocations[row, 1]
        change[allocations[row, 3], level] += size
        change[allocations[row, 4] + 1, level] -= size
