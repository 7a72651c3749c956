"""Placing on machines whose weights stay: the kernel behind the one-shot environments.

First bytes are counted, in the schedule's order: a tensor gets the fastest level from the requested one down that has
room for it in every op of its life, beside what came before it. Then addresses are chosen, knowing all lives
(`packing`). Weights hold their block for the whole inference, so they stack at the top of a level, below whatever any
op reserves there, and results lie below them. A result that finds no address steps down to the next level that has
the bytes.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.packing import pack_level
from memplace_env.placement.compiler.placing_kernels import most_reserved, reassigned_bytes, time_op, wanted_level


@kernel
def place_all(schedule, assignments, decision_of, out, levels, first, last):
    """Place and time `assignments[first:last]`, in which tensor k requests the level `assignments[b, decision_of[k]]`.

    Args:
        schedule: the Schedule.
        assignments: int[B, M], levels.
        decision_of: int64[K], -1 for tensors that live in the backing memory.
        out: int64[3, B]; latency in ps, dynamic energy in pJ and reassigned bytes are written here.
        levels: int8[B, K]; the level that each tensor got is written here.
        first, last: range of assignments.

    Returns:
        offset int64[K] and start int64[K] of the last assignment's blocks; all weights start at op 0.
    """
    tensors, results = len(schedule.tensor_bytes), schedule.by_rank
    offset, of_results = np.zeros(tensors, dtype=np.int64), np.zeros(len(results), dtype=np.int64)
    # Each pass reads and writes its own row only, so that ranges may run in threads side by side.
    for index in range(first, last):
        assignment, level = assignments[index], levels[index]
        room = _grant(schedule, assignment, decision_of, level, offset)
        _find_addresses(schedule.blocks, schedule.near, results, level, room, len(schedule.compute_ps), of_results)
        out[0, index], out[1, index] = _time(schedule, level)
        out[2, index] = reassigned_bytes(schedule, assignment, decision_of, level)
    for block in range(len(results)):
        offset[results[block]] = of_results[block]
    return offset, np.zeros(tensors, dtype=np.int64)


@kernel(forceinline=True)
def _grant(schedule, assignment, decision_of, level, offset):
    """Fill in the `level` int8[K] that each tensor gets by bytes, and the `offset` int64[K] of weights.

    Returns:
        int64[L-1], bytes below the weights of each level, which results may lie in.
    """
    backing, items = len(schedule.capacity) - 1, schedule.item_tensor
    sizes, is_weight, in_order = schedule.tensor_bytes, schedule.item_is_weight, schedule.in_order
    live_start, live_end = schedule.live_start, schedule.live_end
    room = np.empty(backing, dtype=np.int64)
    # A weight stays for all ops, so what any op reserves at the end of a level is lost to weights at all times.
    for fast in range(backing):
        room[fast] = schedule.capacity[fast]
        if schedule.any_reserved:
            room[fast] -= most_reserved(schedule.reserved_bytes, fast, 0, len(schedule.compute_ps) - 1)
    # In order: `live` bytes of results are alive at op `now`, load[l, t] of them die before op t. Else load[l, t] are
    # the bytes alive at op t. `peak` is the most of either so far.
    load = np.zeros((backing, len(schedule.compute_ps) + 1), dtype=np.int64)
    live, peak = np.zeros(backing, dtype=np.int64), np.zeros(backing, dtype=np.int64)
    now = 0
    level[:] = backing
    # Items come in the schedule's order; each steps down until it has room beside those before it.
    for item in range(len(items)):
        tensor = items[item]
        size, got = sizes[tensor], wanted_level(assignment, decision_of, tensor, backing)
        if is_weight[item]:
            while got < backing and peak[got] + size > room[got]:
                got += 1
            if got < backing:  # weights stack downwards from the top
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
    """Take `size` bytes in ops first..last of the fastest level, from `level` down, that has them; return the level.

    `load` int64[L-1, >= T] are bytes taken in each op, `room` int64[L-1] those that may be, `peak` the most that are.
    """
    # Ends with the number of the backing memory, len(room), where no level has the bytes.
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
    """Give `results` their `offset` int64[R], by rank, and a lower `level` to those that find none."""
    size, first, last = blocks
    members, ceiling, end = np.empty_like(size), np.empty_like(size), np.empty_like(size)
    # Fastest level first: what finds no address there is a member of a lower level before that is packed.
    for fast in range(len(room)):
        count = 0
        # Without a branch: each block is written behind the last member, and counts if its level is this one.
        for block in range(len(results)):
            ceiling[block] = room[fast]
            members[count] = block
            count += level[results[block]] == fast
        if pack_level(blocks, near, members[:count], ceiling, offset, end) == 0:
            continue
        # Rare: bytes of all results in each op, beside which those without an address look for bytes again. First the
        # change with each op, which adds up.
        load, peak = np.zeros((len(room), ops + 1), dtype=np.int64), np.zeros(len(room), dtype=np.int64)
        for block in range(len(results)):
            if level[results[block]] < len(room):
                load[level[results[block]], first[block]] += size[block]
                load[level[results[block]], last[block] + 1] -= size[block]
        for other in range(fast + 1, len(room)):
            total = np.int64(0)
            for op in range(ops):
                total += load[other, op]
                load[other, op] = total
        for block in members[:count]:
            if end[block] < 0:
                got = _take_bytes(load, room, peak, fast + 1, first[block], last[block], size[block])
                level[results[block]] = got


@kernel(forceinline=True)
def _time(schedule, level):
    """Return latency in ps and dynamic energy in pJ with every tensor in its `level` int8[K]."""
    used_ps = np.zeros(len(schedule.capacity), dtype=np.int64)
    latency, picojoules = np.int64(0), np.int64(schedule.compute_pj)
    for op in range(len(schedule.compute_ps)):
        op_ps, _, use_pj = time_op(schedule, op, level, used_ps)
        latency += op_ps
        picojoules += use_pj
    return latency, picojoules
