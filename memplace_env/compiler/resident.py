"""Placing on machines whose weights stay: the kernel behind the one-shot environments.

Each level is filled from both ends. A weight holds its block for the whole inference, so it needs bytes that no
result has used yet and none will use: they lie between `high`, the highest byte any result has reached, and
`floor`, the lowest byte of a weight. Weights are stacked downwards from the top of that gap. Results take the
smallest hole between results that fits, at its lower end, ties to the lowest address, and only if there is none the
gap below the weights, which counts as the largest of all: what is not touched there is left for weights to come.
Results only ever start at 0, in a hole or on top of a live block, so the bytes below `high` are all used, and the
one gap that a weight can have is known without a search.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def place_rows(s, choices, slot, out, level, first, last):  # type: ignore[no-untyped-def]
    """Place and time the mappings `choices[first:last]`, in which tensor k wants `choices[row, slot[k]]`.

    Args:
        s: the Schedule.
        choices: int[B, M], levels.
        slot: int64[K], -1 for tensors that live in the backing memory.
        out: int64[3, B]; latency in ps, dynamic energy in pJ and reassigned bytes are written to these rows.
        level: int8[B, K]; the level each tensor got is written to these rows.
        first, last: range of rows.

    Returns:
        offset int64[K] and start int64[K] of the last row's blocks; all weights start at op 0.
    """
    tensors = len(s.tensor_bytes)
    offset = np.zeros(tensors, dtype=np.int64)
    holes = np.empty((len(s.capacity) - 1, 2, len(s.free_tensor) + 1), dtype=np.int64)
    for row in range(first, last):
        out[0, row], out[1, row], out[2, row] = _place(s, choices[row], slot, level[row], offset, holes)
    return offset, np.zeros(tensors, dtype=np.int64)


@njit(cache=True, nogil=True)
def _place(s, choice, slot, level, offset, holes):  # type: ignore[no-untyped-def]
    """One row; `holes` int64[L - 1, 2, R + 1] are the free gaps below the highest live block, by address."""
    backing = len(s.capacity) - 1
    floor = s.capacity.copy()
    high = np.zeros(backing, dtype=np.int64)
    top = np.zeros(backing, dtype=np.int64)
    num_holes = np.zeros(backing, dtype=np.int64)
    port = np.zeros(backing + 1, dtype=np.int64)
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
                    best, best_size = -1, np.int64(2**62)
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
                    if floor[got] - top[got] >= size:
                        offset[k] = top[got]
                        top[got] += size
                        high[got] = max(high[got], top[got])
                        break
                    got += 1
            level[k] = got
            if got != wanted:
                reassigned += size

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
            port[at] = 0
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
