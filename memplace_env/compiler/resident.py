"""Placing on machines whose weights stay: the kernel behind the one-shot environments.

Each level is filled from both ends. A weight holds its block for the whole inference, so it needs bytes that no
result has used yet and none will use: they lie between `high`, the highest byte any result has reached, and
`floor`, the lowest byte of a weight. Weights are stacked downwards from the top of that gap. Results take the
smallest hole between results that fits, at its lower end, ties to the lowest address, and only if there is none the
gap below the weights, which counts as the largest of all: what is not touched there is left for weights to come.
Results only ever start at 0, in a hole or on top of a live block, so the bytes below `high` are all used, and the
one gap that a weight can have is known without a search.

Weights lie below whatever any op reserves at the end of a level, and results below the weights.
"""

from __future__ import annotations

import numpy as np

from memplace_env.compiler.kernels import time_op
from memplace_env.kernel import kernel
from memplace_env.plan.gaps import ENDLESS, narrower_gap


@kernel
def place_all(schedule, choices, slot, out, levels, first, last):
    """Place and time the mappings `choices[first:last]`, in which tensor k wants `choices[b, slot[k]]`.

    Args:
        schedule: the Schedule.
        choices: int[B, M], levels.
        slot: int64[K], -1 for tensors that live in the backing memory.
        out: int64[3, B]; latency in ps, dynamic energy in pJ and reassigned bytes are written here.
        levels: int8[B, K]; the level each tensor got is written here.
        first, last: range of mappings.

    Returns:
        offset int64[K] and start int64[K] of the last mapping's blocks; all weights start at op 0.
    """
    tensors = len(schedule.tensor_bytes)
    offset = np.zeros(tensors, dtype=np.int64)
    holes = np.empty((len(schedule.capacity) - 1, 2, len(schedule.free_tensor) + 1), dtype=np.int64)
    for index in range(first, last):
        out[0, index], out[1, index], out[2, index] = _place(
            schedule, choices[index], slot, levels[index], offset, holes
        )
    return offset, np.zeros(tensors, dtype=np.int64)


@kernel
def _place(schedule, choice, slot, level, offset, holes):
    """One mapping; `holes` int64[L - 1, 2, R + 1] are the free gaps below the highest live block, by address."""
    backing = len(schedule.capacity) - 1
    floor = schedule.capacity.copy()
    if schedule.any_reserved:
        for fast in range(backing):
            floor[fast] -= schedule.reserved_bytes[:, fast].max()
    high = np.zeros(backing, dtype=np.int64)
    top = np.zeros(backing, dtype=np.int64)
    num_holes = np.zeros(backing, dtype=np.int64)
    used_ps = np.zeros(backing + 1, dtype=np.int64)
    latency, picojoules, reassigned = np.int64(0), np.int64(schedule.compute_pj), np.int64(0)
    level[:] = backing

    for op in range(len(schedule.item_ptr) - 1):
        for item in range(schedule.item_ptr[op], schedule.item_ptr[op + 1]):
            tensor = schedule.item_tensor[item]
            size = schedule.tensor_bytes[tensor]
            wanted = choice[slot[tensor]] if slot[tensor] >= 0 else backing
            got = wanted
            if schedule.item_is_weight[item]:
                while got < backing and floor[got] - high[got] < size:
                    got += 1
                if got < backing:
                    floor[got] -= size
                    offset[tensor] = floor[got]
            else:
                while got < backing:
                    best, best_size = np.int64(-1), ENDLESS
                    for hole in range(num_holes[got]):
                        hole_size = holes[got, 1, hole] - holes[got, 0, hole]
                        best, best_size = narrower_gap(best, best_size, hole, hole_size, size)
                    if best >= 0:
                        offset[tensor] = holes[got, 0, best]
                        holes[got, 0, best] += size
                        if best_size == size:
                            num_holes[got] -= 1
                            for hole in range(best, num_holes[got]):
                                holes[got, 0, hole] = holes[got, 0, hole + 1]
                                holes[got, 1, hole] = holes[got, 1, hole + 1]
                        break
                    if floor[got] - top[got] >= size:
                        offset[tensor] = top[got]
                        top[got] += size
                        high[got] = max(high[got], top[got])
                        break
                    got += 1
            level[tensor] = got
            if got != wanted:
                reassigned += size

        op_ps, _, use_pj = time_op(schedule, op, level, used_ps)
        latency += op_ps
        picojoules += use_pj

        for dead in range(schedule.free_ptr[op], schedule.free_ptr[op + 1]):
            tensor = schedule.free_tensor[dead]
            if level[tensor] < backing:
                end = offset[tensor] + schedule.tensor_bytes[tensor]
                _free(holes, num_holes, top, level[tensor], offset[tensor], end)
    return latency, picojoules, reassigned


@kernel
def _take_hole(holes, num_holes, level, size):
    """Offset of the smallest hole that fits, which shrinks or goes; -1 if none fits."""
    best, best_size = np.int64(-1), ENDLESS
    for hole in range(num_holes[level]):
        best, best_size = narrower_gap(best, best_size, hole, holes[level, 1, hole] - holes[level, 0, hole], size)
    if best < 0:
        return np.int64(-1)
    begin = holes[level, 0, best]
    holes[level, 0, best] += size
    if best_size == size:
        num_holes[level] -= 1
        for hole in range(best, num_holes[level]):
            holes[level, 0, hole] = holes[level, 0, hole + 1]
            holes[level, 1, hole] = holes[level, 1, hole + 1]
    return begin


@kernel
def _free(holes, num_holes, top, level, begin, end):
    """Give the bytes begin..end back: they join the holes beside them, or lower the top of the live blocks."""
    count = num_holes[level]
    if end == top[level]:
        if count > 0 and holes[level, 1, count - 1] == begin:
            begin = holes[level, 0, count - 1]
            num_holes[level] = count - 1
        top[level] = begin
        return
    place = count
    while place > 0 and holes[level, 0, place - 1] > begin:
        place -= 1
    joins_lower = place > 0 and holes[level, 1, place - 1] == begin
    joins_upper = place < count and holes[level, 0, place] == end
    if joins_lower and joins_upper:
        holes[level, 1, place - 1] = holes[level, 1, place]
        num_holes[level] = count - 1
        for hole in range(place, count - 1):
            holes[level, 0, hole] = holes[level, 0, hole + 1]
            holes[level, 1, hole] = holes[level, 1, hole + 1]
    elif joins_lower:
        holes[level, 1, place - 1] = end
    elif joins_upper:
        holes[level, 0, place] = begin
    else:
        for hole in range(count, place, -1):
            holes[level, 0, hole] = holes[level, 0, hole - 1]
            holes[level, 1, hole] = holes[level, 1, hole - 1]
        holes[level, 0, place] = begin
        holes[level, 1, place] = end
        num_holes[level] = count + 1
