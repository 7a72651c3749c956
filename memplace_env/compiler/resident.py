"""Placing on machines whose weights stay: the kernel behind the one-shot environments.

First bytes are counted, in the schedule's order: a tensor gets the fastest level from the wanted one down that has
room for it in every op of its life, beside what came before it. Then addresses are chosen, knowing all lives
(`packing`). Weights hold their block for the whole inference, so they stack at the top of a level, below whatever any
op reserves there, and results lie below them. A result that finds no address steps down to the next level that has
the bytes.
"""

from __future__ import annotations

import numpy as np

from memplace_env.compiler.kernels import most_reserved, reassigned_bytes, time_op, wanted_level
from memplace_env.compiler.packing import pack_level
from memplace_env.kernel import kernel


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
    tensors, results = len(schedule.tensor_bytes), schedule.by_rank
    offset, of_results = np.zeros(tensors, dtype=np.int64), np.zeros(len(results), dtype=np.int64)
    for index in range(first, last):
        choice, level = choices[index], levels[index]
        room = _grant(schedule, choice, slot, level, offset)
        _find_addresses(schedule.blocks, schedule.near, results, level, room, len(schedule.compute_ps), of_results)
        out[0, index], out[1, index] = _time(schedule, level)
        out[2, index] = reassigned_bytes(schedule, choice, slot, level)
    for block in range(len(results)):
        offset[results[block]] = of_results[block]
    return offset, np.zeros(tensors, dtype=np.int64)


@kernel(forceinline=True)
def _grant(schedule, choice, slot, level, offset):
    """Fill in the `level` int8[K] that each tensor gets by bytes, and the `offset` int64[K] of weights.

    Returns:
        int64[L-1], bytes below the weights of each level.
    """
    backing, items = len(schedule.capacity) - 1, schedule.item_tensor
    sizes, is_weight, in_order = schedule.tensor_bytes, schedule.item_is_weight, schedule.in_order
    live_start, live_end = schedule.live_start, schedule.live_end
    room = np.empty(backing, dtype=np.int64)
    for fast in range(backing):
        room[fast] = schedule.capacity[fast]
        if schedule.any_reserved:
            room[fast] -= most_reserved(schedule.reserved_bytes, fast, 0, len(schedule.compute_ps) - 1)
    load = np.zeros((backing, len(schedule.compute_ps) + 1), dtype=np.int64)
    live, peak = np.zeros(backing, dtype=np.int64), np.zeros(backing, dtype=np.int64)
    now = 0
    level[:] = backing
    for item in range(len(items)):
        tensor = items[item]
        size, got = sizes[tensor], wanted_level(choice, slot, tensor, backing)
        if is_weight[item]:
            while got < backing and peak[got] + size > room[got]:
                got += 1
            if got < backing:
                room[got] -= size
                offset[tensor] = room[got]
        elif in_order:  # what is alive now is the most that will be, and `load` holds what dies before each op
            while now < live_start[tensor]:
                now += 1
                for fast in range(backing):
                    live[fast] -= load[fast, now]
            while got < backing and live[got] + size > room[got]:
                got += 1
            if got < backing:
                live[got] += size
                load[got, live_end[tensor] + 1] += size
                peak[got] = max(peak[got], live[got])
        else:
            got = _take_bytes(load, room, peak, got, live_start[tensor], live_end[tensor], size)
        level[tensor] = got
    return room


@kernel
def _take_bytes(load, room, peak, level, first, last, size):
    """The fastest level from `level` down with `size` bytes left in all ops first..last; they are taken there.

    `load` int64[L-1, >= T] are bytes taken in each op, `room` int64[L-1] those that may be, `peak` the most that are.
    """
    while level < len(room):
        highest = np.int64(0)
        for op in range(first, last + 1):
            highest = max(highest, load[level, op] + size)
        if highest <= room[level]:
            for op in range(first, last + 1):
                load[level, op] += size
            peak[level] = max(peak[level], highest)
            break
        level += 1
    return level


@kernel(forceinline=True)
def _find_addresses(blocks, near, results, level, room, ops, offset):
    """Give `results` their `offset` int64[R], by rank, and those without one another `level`."""
    size, first, last = blocks
    found, ceiling, end = np.empty_like(size), np.empty_like(size), np.empty_like(size)
    for fast in range(len(room)):
        count = 0
        for block in range(len(results)):
            ceiling[block] = room[fast]
            found[count] = block
            count += level[results[block]] == fast
        if pack_level(blocks, near, found[:count], ceiling, offset, end) == 0:
            continue
        load, peak = np.zeros((len(room), ops), dtype=np.int64), np.zeros(len(room), dtype=np.int64)
        for block in range(len(results)):
            if level[results[block]] < len(room):
                for op in range(first[block], last[block] + 1):
                    load[level[results[block]], op] += size[block]
        for block in found[:count]:
            if end[block] < 0:
                got = _take_bytes(load, room, peak, fast + 1, first[block], last[block], size[block])
                level[results[block]] = got


@kernel(forceinline=True)
def _time(schedule, level):
    """(Latency in ps, dynamic energy in pJ) with every tensor in its `level` int8[K]."""
    used_ps = np.zeros(len(schedule.capacity), dtype=np.int64)
    latency, picojoules = np.int64(0), np.int64(schedule.compute_pj)
    for op in range(len(schedule.compute_ps)):
        op_ps, _, use_pj = time_op(schedule, op, level, used_ps)
        latency += op_ps
        picojoules += use_pj
    return latency, picojoules
