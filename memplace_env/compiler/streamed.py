"""Placing on machines whose weights start every inference in the backing memory.

A weight mapped to a fast level is copied in before its first use, in the shortest window of ops whose backing port
has enough time left, and holds its block from that window to its last use. Bytes are counted op by op, as the windows
follow from the times of the ops before; then addresses are chosen, knowing all lives (`packing`). Where a tensor finds
no address, it asks for the next level instead and everything is done again, as its going changes times and with them
later windows: no copy is ever accepted that an op would have to wait for.
"""

from __future__ import annotations

import numpy as np

from memplace_env.compiler.kernels import most_reserved, reassigned_bytes, time_op, wanted_level
from memplace_env.compiler.packing import neighbours_of, pack_level
from memplace_env.kernel import kernel


@kernel
def place_all(schedule, choices, slot, out, levels, first, last):
    """Place and time mappings; arguments and result as in `compiler.resident.place_all`.

    The returned `start` of a weight is the first op of its copy. No copy can stall: a window is only taken if the
    time is there, and booking it forwards leaves room for what comes later, so playing the copies by earliest
    deadline meets every deadline.
    """
    tensors, backing = len(schedule.tensor_bytes), len(schedule.capacity) - 1
    offset, start = np.zeros(tensors, dtype=np.int64), np.zeros(tensors, dtype=np.int64)
    asked = np.empty(tensors, dtype=np.int64)
    for index in range(first, last):
        choice, level = choices[index], levels[index]
        for tensor in range(tensors):
            asked[tensor] = wanted_level(choice, slot, tensor, backing)
        settled = False
        while not settled:
            out[0, index], out[1, index] = _grant(schedule, asked, level, start)
            settled = _find_addresses(
                (schedule.blocks, schedule.by_rank),
                (schedule.capacity, schedule.reserved_bytes),
                (asked, level, start),
                offset,
            )
        out[2, index] = reassigned_bytes(schedule, choice, slot, level)
    return offset, start


@kernel
def _grant(schedule, asked, level, start):
    """Fill in the `level` int8[K] that each tensor gets by bytes, and the `start` int64[K] of its block.

    Returns:
        Latency in ps and dynamic energy in pJ.
    """
    backing, ops = len(schedule.capacity) - 1, len(schedule.compute_ps)
    load, free_ps = np.zeros((backing, ops), dtype=np.int64), np.empty(ops, dtype=np.int64)
    used_ps = np.zeros(backing + 1, dtype=np.int64)
    latency, picojoules = np.int64(0), np.int64(schedule.compute_pj)
    level[:] = backing
    for op in range(-1, ops):
        for item in range(schedule.item_ptr[op + 1], schedule.item_ptr[op + 2]):
            tensor, got = schedule.item_tensor[item], asked[schedule.item_tensor[item]]
            since, until = schedule.live_start[tensor], schedule.live_end[tensor]
            size, demand = schedule.tensor_bytes[tensor], schedule.prefetch_ps[tensor]
            is_copied = schedule.item_is_weight[item] and got < backing
            if is_copied:
                since = _window_start(free_ps, op, demand)
                if since < 0:
                    got = backing
            while got < backing and not _has_room(
                load, schedule.capacity, schedule.reserved_bytes, got, since, until, size
            ):
                got += 1
            level[tensor] = got
            if got < backing:
                for during in range(since, until + 1):
                    load[got, during] += size
                start[tensor] = since
                if is_copied:
                    picojoules += schedule.copy_pj[tensor, got]
                    for during in range(since, op):
                        taken = min(demand, free_ps[during])
                        free_ps[during] -= taken
                        demand -= taken
        if op >= 0:
            op_ps, busy_ps, use_pj = time_op(schedule, op, level, used_ps)
            latency += op_ps
            picojoules += use_pj
            free_ps[op] = op_ps - busy_ps
    return latency, picojoules


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
def _has_room(load, capacity, reserved_bytes, level, since, until, size):
    """Whether a level has `size` bytes left in each of the ops since..until."""
    for op in range(since, until + 1):  # noqa: SIM110  (numba knows no generators)
        if load[level, op] + reserved_bytes[op, level] + size > capacity[level]:
            return False
    return True


@kernel
def _find_addresses(ranked, memory, tensors, offset):
    """Fill in the `offset` int64[K] of blocks; whether all found one: those that did not now ask for the next level."""
    (size, _, last), by_rank = ranked
    capacity, reserved_bytes = memory
    asked, level, start = tensors
    first, fast = np.empty(len(size), dtype=np.int64), np.empty(len(size), dtype=np.bool_)
    for block in range(len(size)):
        first[block], fast[block] = start[by_rank[block]], level[by_rank[block]] < len(capacity) - 1
    near = neighbours_of(first, last, fast)
    mine, ceiling, at, end = np.empty_like(size), np.empty_like(size), np.empty_like(size), np.empty_like(size)
    all_placed = True
    for got in range(len(capacity) - 1):
        count = 0
        for block in range(len(size)):
            if level[by_rank[block]] == got:
                mine[count] = block
                ceiling[block] = capacity[got] - most_reserved(reserved_bytes, got, first[block], last[block])
                count += 1
        pack_level((size, first, last), near, mine[:count], ceiling, at, end)
        for block in mine[:count]:
            offset[by_rank[block]] = at[block]
            if end[block] < 0:
                asked[by_rank[block]], all_placed = got + 1, False
    return all_placed
