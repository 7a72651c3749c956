"""Compiled loops of the simulator, over struct-of-arrays, all in integer picoseconds."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def port_times(use_ptr, use_level, use_ps, latency_ps):  # type: ignore[no-untyped-def]
    """int64[T, L]: port time of each op at each level, the level's latency once where it is touched."""
    ops, levels = len(use_ptr) - 1, len(latency_ps)
    times = np.zeros((ops, levels), dtype=np.int64)
    for op in range(ops):
        for use in range(use_ptr[op], use_ptr[op + 1]):
            times[op, use_level[use]] += use_ps[use, use_level[use]]
        for level in range(levels):
            if times[op, level] > 0:
                times[op, level] += latency_ps[level]
    return times


@njit(cache=True, nogil=True)
def run_transfers(leftover_ps, start, end, demand_ps):  # type: ignore[no-untyped-def]
    """Play the copies against the backing port's free time; copies come ordered by (end, start, plan order).

    Returns (stall_ps int64[T], tail_ps): before op t, copies due earlier are finished at full bandwidth (the
    deadline rule); during op t the started ones share its leftover, earliest deadline first; after the last op
    the rest is finished.
    """
    ops = len(leftover_ps)
    stall = np.zeros(ops, dtype=np.int64)
    left = demand_ps.copy()
    first = 0
    for op in range(ops):
        while first < len(left) and (left[first] == 0 or end[first] < op):
            stall[op] += left[first]
            left[first] = 0
            first += 1
        free = leftover_ps[op]
        for copy in range(first, len(left)):
            if free == 0:
                break
            if start[copy] <= op:
                done = min(free, left[copy])
                left[copy] -= done
                free -= done
    return stall, left.sum()
