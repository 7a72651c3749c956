"""Placing on machines whose weights start every inference in the backing memory.

A weight mapped to a fast level is copied in before its first use, in the shortest window of ops whose backing port
has enough time left, and holds its block from that window to its last use. Since a window begins before the op
being placed, a gap must be free over past ops too: all blocks are kept, sorted by address.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def best_fit(blocks, count, capacity, size, since):  # type: ignore[no-untyped-def]
    """Lowest offset of the smallest gap >= size among blocks whose last op is >= `since`; -1 if there is none.

    `blocks` is int64[3, n]: offset, end address, last op; sorted by offset; `count` are in use.
    """
    best, best_size, cursor = np.int64(-1), np.int64(2**62), np.int64(0)
    for block in range(count + 1):
        if block < count and blocks[2, block] < since:
            continue
        gap = (blocks[0, block] if block < count else capacity) - cursor
        if size <= gap < best_size:
            best, best_size = cursor, gap
        if block < count:
            cursor = max(cursor, blocks[1, block])
    return best


@njit(cache=True, nogil=True)
def insert_block(blocks, count, offset, size, last):  # type: ignore[no-untyped-def]
    """Add a block, keeping the order by offset; the caller counts."""
    where = count
    while where > 0 and blocks[0, where - 1] > offset:
        blocks[:, where] = blocks[:, where - 1]
        where -= 1
    blocks[0, where] = offset
    blocks[1, where] = offset + size
    blocks[2, where] = last


@njit(cache=True, nogil=True)
def window_start(free_ps, op, demand):  # type: ignore[no-untyped-def]
    """Largest s with sum(free_ps[s:op]) >= demand, or -1: the latest start of a copy that op `op` waits for."""
    gathered = np.int64(0)
    for start in range(op - 1, -1, -1):
        gathered += free_ps[start]
        if gathered >= demand:
            return start
    return -1


@njit(cache=True, nogil=True)
def place_rows(s, choices, slot, out, level, first, last):  # type: ignore[no-untyped-def]
    """Place and time mappings; arguments and result as in `compiler.resident.place_rows`.

    The returned `start` of a weight is the first op of its copy. No copy can stall: a window is only taken if the
    time is there, and booking it forwards leaves room for what comes later, so playing the copies by earliest
    deadline meets every deadline.
    """
    tensors, items = len(s.tensor_bytes), len(s.item_tensor)
    offset, start = np.zeros(tensors, dtype=np.int64), np.zeros(tensors, dtype=np.int64)
    blocks = np.empty((len(s.capacity) - 1, 3, items + 1), dtype=np.int64)
    free_ps = np.empty(len(s.compute_ps), dtype=np.int64)
    for row in range(first, last):
        out[0, row], out[1, row], out[2, row] = _place(
            s, choices[row], slot, level[row], offset, start, blocks, free_ps
        )
    return offset, start


@njit(cache=True, nogil=True)
def _place(s, choice, slot, level, offset, start, blocks, free_ps):  # type: ignore[no-untyped-def]
    """One row; `blocks` as in `best_fit` for each level, `free_ps` int64[T] what copies may still use of each op."""
    backing = len(s.capacity) - 1
    count = np.zeros(backing, dtype=np.int64)
    port = np.empty(backing + 1, dtype=np.int64)
    latency, picojoules, reassigned = np.int64(0), np.int64(s.compute_pj), np.int64(0)
    level[:] = backing

    for op in range(len(s.item_ptr) - 1):
        for item in range(s.item_ptr[op], s.item_ptr[op + 1]):
            k = s.item_tensor[item]
            size = s.tensor_bytes[k]
            wanted = choice[slot[k]] if slot[k] >= 0 else backing
            since, got = op, wanted
            if s.item_is_weight[item] and wanted < backing:
                since = window_start(free_ps, op, s.prefetch_ps[k])
                if since < 0:
                    got = backing
            while got < backing:
                place = best_fit(blocks[got], count[got], s.capacity[got], size, since)
                if place >= 0:
                    insert_block(blocks[got], count[got], place, size, s.live_end[k])
                    count[got] += 1
                    offset[k] = place
                    start[k] = since
                    break
                got += 1
            level[k] = got
            if got != wanted:
                reassigned += size
            if got < backing and s.item_is_weight[item]:
                picojoules += s.copy_pj[k, got]
                demand = s.prefetch_ps[k]
                for during in range(since, op):
                    taken = min(demand, free_ps[during])
                    free_ps[during] -= taken
                    demand -= taken

        port[:] = 0
        for use in range(s.use_ptr[op], s.use_ptr[op + 1]):
            at = level[s.use_tensor[use]]
            port[at] += s.use_ps[use, at]
            picojoules += s.use_pj[use, at]
        slowest, total = np.int64(0), np.int64(0)
        for at in range(backing + 1):
            if port[at] > 0:
                port[at] += s.latency_ps[at]
            slowest = max(slowest, port[at])
            total += port[at]
        op_time = max(s.compute_ps[op], total if s.serial else slowest) + s.overhead_ps
        latency += op_time
        free_ps[op] = op_time - port[backing]
    return latency, picojoules, reassigned
