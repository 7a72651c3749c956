"""Placing on machines whose weights stay: the kernel behind the one-shot environments.

Each level is filled from both ends. A weight holds its block for the whole inference, so it needs bytes that no
result has used yet and none will use: they lie between `high`, the highest byte any result has reached, and
`floor`, the lowest byte of a weight. Weights are stacked downwards from the top of that gap; results take the
smallest free gap below `floor` that fits, at its lower end, ties to the lowest address. Results only ever start at
0, in a hole or on top of a live block, so the bytes below `high` are all used: the one gap that a weight can
have is known without a search.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MAX_LEVELS = 8


@njit(cache=True, nogil=True, boundscheck=False)
def place_resident(s, choice, slot, level, offset, holes):  # type: ignore[no-untyped-def]
    """Place one mapping and time it.

    Args:
        s: the Schedule.
        choice: int[...], levels; tensor k wants `choice[slot[k]]`, the backing memory if `slot[k] < 0`.
        slot: int64[K].
        level: int8[K], filled with the level each tensor gets.
        offset: int64[K], filled with the byte offset of each tensor that has a block.
        holes: int64[L - 1, 2, R + 1], scratch for the free gaps below the highest live block.

    Returns:
        (latency_ps, dynamic_pj, reassigned_bytes).
    """
    backing = len(s.capacity) - 1
    floor = s.capacity.copy()
    high = np.zeros(backing, dtype=np.int64)
    top = np.zeros(backing, dtype=np.int64)
    num_holes = np.zeros(backing, dtype=np.int64)
    latency, picojoules, reassigned = np.int64(0), np.int64(s.compute_pj), np.int64(0)
    level[:] = backing

    for op in range(len(s.item_ptr) - 1):
        for item in range(s.item_ptr[op], s.item_ptr[op + 1]):
            k = s.item_tensor[item]
            size = s.tensor_bytes[k]
            wanted = choice[slot[k]] if slot[k] >= 0 else backing
            got = wanted
            if s.item_is_weight[item]:
                while got < backing and floor[got] - high[got] < size:
                    got += 1
                if got < backing:
                    floor[got] -= size
                    offset[k] = floor[got]
            else:
                while got < backing:
                    best, best_size = -1, floor[got] - top[got]
                    if best_size < size:
                        best_size = np.int64(2**62)
                    for hole in range(num_holes[got] - 1, -1, -1):
                        hole_size = holes[got, 1, hole] - holes[got, 0, hole]
                        if size <= hole_size <= best_size:
                            best, best_size = hole, hole_size
                    if best >= 0:
                        offset[k] = holes[got, 0, best]
                        holes[got, 0, best] += size
                        if best_size == size:
                            num_holes[got] -= 1
                            for hole in range(best, num_holes[got]):
                                holes[got, 0, hole] = holes[got, 0, hole + 1]
                                holes[got, 1, hole] = holes[got, 1, hole + 1]
                        break
                    if best_size < 2**62:
                        offset[k] = top[got]
                        top[got] += size
                        high[got] = max(high[got], top[got])
                        break
                    got += 1
            level[k] = got
            if got != wanted:
                reassigned += size

        slowest, total, from_backing = np.int64(0), np.int64(0), np.int64(0)
        for at in range(backing + 1):
            port = np.int64(0)
            for use in range(s.use_ptr[op], s.use_ptr[op + 1]):
                if level[s.use_tensor[use]] == at:
                    port += s.use_ps[use, at]
                    picojoules += s.use_pj[use, at]
            if port > 0:
                port += s.latency_ps[at]
            slowest = max(slowest, port)
            total += port
        latency += max(s.compute_ps[op], total if s.serial else slowest) + s.overhead_ps

        for dead in range(s.free_ptr[op], s.free_ptr[op + 1]):
            k = s.free_tensor[dead]
            at = level[k]
            if at == backing:
                continue
            low, end = offset[k], offset[k] + s.tensor_bytes[k]
            count = num_holes[at]
            if end == top[at]:
                if count > 0 and holes[at, 1, count - 1] == low:
                    low = holes[at, 0, count - 1]
                    num_holes[at] = count - 1
                top[at] = low
                continue
            where = count
            while where > 0 and holes[at, 0, where - 1] > low:
                where -= 1
            joins_lower = where > 0 and holes[at, 1, where - 1] == low
            joins_upper = where < count and holes[at, 0, where] == end
            if joins_lower and joins_upper:
                holes[at, 1, where - 1] = holes[at, 1, where]
                num_holes[at] = count - 1
                for hole in range(where, count - 1):
                    holes[at, 0, hole] = holes[at, 0, hole + 1]
                    holes[at, 1, hole] = holes[at, 1, hole + 1]
            elif joins_lower:
                holes[at, 1, where - 1] = end
            elif joins_upper:
                holes[at, 0, where] = low
            else:
                for hole in range(count, where, -1):
                    holes[at, 0, hole] = holes[at, 0, hole - 1]
                    holes[at, 1, hole] = holes[at, 1, hole - 1]
                holes[at, 0, where] = low
                holes[at, 1, where] = end
                num_holes[at] = count + 1
    return latency, picojoules, reassigned
