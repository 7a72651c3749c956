"""Placing on machines whose weights start every inference in the backing memory.

A weight mapped to a fast level is copied in before its first use, in the shortest window of ops whose backing port
has enough time left, and holds its block from that window to its last use. Since a window begins before the op
being placed, a gap must be free over past ops too: all blocks are kept, sorted by address.
"""

from __future__ import annotations

import numpy as np

from memplace_env.compiler.kernels import time_op
from memplace_env.kernel import kernel
from memplace_env.plan.gaps import ENDLESS, narrower_gap


@kernel
def place_all(schedule, choices, slot, out, levels, first, last):
    """Place and time mappings; arguments and result as in `compiler.resident.place_all`.

    The returned `start` of a weight is the first op of its copy. No copy can stall: a window is only taken if the
    time is there, and booking it forwards leaves room for what comes later, so playing the copies by earliest
    deadline meets every deadline.
    """
    tensors, items = len(schedule.tensor_bytes), len(schedule.item_tensor)
    offset, start = np.zeros(tensors, dtype=np.int64), np.zeros(tensors, dtype=np.int64)
    blocks = np.empty((len(schedule.capacity) - 1, 3, items + 1), dtype=np.int64)
    free_ps = np.empty(len(schedule.compute_ps), dtype=np.int64)
    for index in range(first, last):
        out[0, index], out[1, index], out[2, index] = _place(
            schedule, choices[index], slot, levels[index], offset, start, blocks, free_ps
        )
    return offset, start


@kernel
def _place(schedule, choice, slot, level, offset, start, blocks, free_ps):
    """One mapping; `blocks` as in `_best_fit` for each level, `free_ps` int64[T] what copies may use of each op."""
    backing = len(schedule.capacity) - 1
    count = np.zeros(backing, dtype=np.int64)
    used_ps = np.zeros(backing + 1, dtype=np.int64)
    latency, picojoules, reassigned = np.int64(0), np.int64(schedule.compute_pj), np.int64(0)
    level[:] = backing

    for op in range(len(schedule.item_ptr) - 1):
        for item in range(schedule.item_ptr[op], schedule.item_ptr[op + 1]):
            tensor, is_weight = schedule.item_tensor[item], schedule.item_is_weight[item]
            size = schedule.tensor_bytes[tensor]
            wanted = choice[slot[tensor]] if slot[tensor] >= 0 else backing
            since, got = op, wanted
            if is_weight and wanted < backing:
                since = _window_start(free_ps, op, schedule.prefetch_ps[tensor])
                if since < 0:
                    got = backing
            while got < backing:
                ceiling = _ceiling(schedule, got, since, schedule.live_end[tensor])
                begin = _best_fit(blocks[got], count[got], ceiling, size, since)
                if begin >= 0:
                    _insert(blocks[got], count[got], begin, size, schedule.live_end[tensor])
                    count[got] += 1
                    offset[tensor] = begin
                    start[tensor] = since
                    break
                got += 1
            level[tensor] = got
            if got != wanted:
                reassigned += size
            if got < backing and is_weight:
                picojoules += schedule.copy_pj[tensor, got]
                demand = schedule.prefetch_ps[tensor]
                for during in range(since, op):
                    taken = min(demand, free_ps[during])
                    free_ps[during] -= taken
                    demand -= taken

        op_ps, busy_ps, use_pj = time_op(schedule, op, level, used_ps)
        latency += op_ps
        picojoules += use_pj
        free_ps[op] = op_ps - busy_ps
    return latency, picojoules, reassigned


@kernel
def _window_start(free_ps, op, demand):
    """Largest s with sum(free_ps[s:op]) >= demand, or -1: the latest start of a copy that op `op` waits for."""
    gathered = np.int64(0)
    for start in range(op - 1, -1, -1):
        gathered += free_ps[start]
        if gathered >= demand:
            return start
    return -1


@kernel
def _ceiling(schedule, level, first, last):
    """Bytes of a level below what any of the ops first..last reserves."""
    if not schedule.any_reserved:
        return schedule.capacity[level]
    return schedule.capacity[level] - schedule.reserved_bytes[first : last + 1, level].max()


@kernel
def _best_fit(blocks, count, ceiling, size, since):
    """Lowest offset of the smallest gap >= size below `ceiling` among blocks whose last op is >= `since`, or -1.

    `blocks` is int64[3, n]: offset, end address, last op; sorted by offset; `count` are in use.
    """
    best, best_size, cursor = np.int64(-1), ENDLESS, np.int64(0)
    for block in range(count):
        if blocks[2, block] >= since:
            gap = min(blocks[0, block], ceiling) - cursor
            best, best_size = narrower_gap(best, best_size, cursor, gap, size)
            cursor = max(cursor, blocks[1, block])
    best, best_size = narrower_gap(best, best_size, cursor, ceiling - cursor, size)
    return best


@kernel
def _insert(blocks, count, begin, size, last):
    """Add a block, keeping the order by offset; the caller counts."""
    place = count
    while place > 0 and blocks[0, place - 1] > begin:
        blocks[:, place] = blocks[:, place - 1]
        place -= 1
    blocks[0, place] = begin
    blocks[1, place] = begin + size
    blocks[2, place] = last
