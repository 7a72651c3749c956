"""Placing on machines whose weights start every inference in the backing memory.

A weight assigned to a fast level is copied in before its first use, in the shortest window of ops whose backing port
has enough time left, and holds its block from that window to its last use. Bytes are counted op by op, as the windows
follow from the times of the ops before; then addresses are chosen, knowing all lives (`packing`). Where a tensor finds
no address, it requests the next level instead and everything is done again, as times and with them later windows
change without it: no copy is ever accepted that an op would have to wait for.

In crowded programs (`packing`) a tensor that gets a lower level than it requested does not request more again, so that
two or three passes suffice; elsewhere it takes the bytes that others had to give up.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.block_neighbours import neighbours_of, no_lists
from memplace_env.placement.compiler.free_bytes import fewest_free, new_profile, take
from memplace_env.placement.compiler.in_place import giver_in, link, no_links, pack_in_place
from memplace_env.placement.compiler.packing import pack_level, packing_space
from memplace_env.placement.compiler.placing_kernels import most_reserved, reassigned_bytes, requested_level, time_op


@kernel
def place_all(schedule, assignments, decision_of, out, levels, first, last):
    """Place and time assignments; arguments and result as in `compiler.resident.place_all`.

    The returned `start` of a weight is the first op of its copy. No copy can stall: a window is only taken if the
    time is there, and booking it forwards leaves room for what comes later, so playing the copies by earliest
    deadline meets every deadline.
    """
    tensors, backing = len(schedule.tensor_bytes), len(schedule.capacity) - 1
    offset, start = np.zeros(tensors, dtype=np.int64), np.zeros(tensors, dtype=np.int64)
    requested, links = np.empty(tensors, dtype=np.int64), no_links(schedule.pairs)
    for index in range(first, last):
        assignment, level = assignments[index], levels[index]
        for tensor in range(tensors):
            wanted = requested_level(assignment, decision_of, tensor, backing)
            requested[tensor] = schedule.asked_level[tensor, wanted]
        settled = False
        # Each pass but the last lowers at least one requested level, so there are at most K (L - 1) + 1.
        while not settled:
            out[0, index], out[1, index] = _grant(schedule, requested, level, start, links)
            if schedule.crowded:
                for tensor in range(tensors):
                    requested[tensor] = max(requested[tensor], level[tensor])
            settled = _find_addresses(schedule, (requested, level, start, links), offset)
        out[2, index] = reassigned_bytes(schedule, assignment, decision_of, level)
    return offset, start


@kernel(inline="always")
def _grant(schedule, requested, level, start, links):
    """Fill in the `level` int8[K] that each tensor gets by bytes, the `start` int64[K] of its block, and `links`.

    Returns:
        Latency in ps and dynamic energy in pJ.
    """
    backing, ops, costs = len(schedule.capacity) - 1, len(schedule.use_ptr) - 1, schedule.costs
    load, free_ps = np.zeros((backing, ops), dtype=np.int64), np.empty(ops, dtype=np.int64)
    # Lives in a crowd are long: what is free in them is looked up instead of added up (`free_bytes`).
    rows = backing if schedule.crowded else 0
    least, taken = _free_of_levels(schedule.capacity[:rows], costs.reserved_bytes)
    used_ps = np.zeros(backing + 1, dtype=np.int64)
    latency, picojoules = np.int64(0), np.int64(schedule.all_compute_pj)
    level[:] = backing
    # Op -1 holds the items that come before op 0. When op t is reached, the times of all ops before it are known:
    # free_ps[:t] is what they leave of the backing port beside the copies granted so far.
    for op in range(-1, ops):
        for item in range(schedule.item_ptr[op + 1], schedule.item_ptr[op + 2]):
            tensor, got = schedule.item_tensor[item], requested[schedule.item_tensor[item]]
            since, until = schedule.live_start[tensor], schedule.live_end[tensor]
            size, demand = schedule.tensor_bytes[tensor], costs.prefetch_ps[tensor]
            is_copied = schedule.item_is_weight[item] and got < backing
            if is_copied:
                since = _window_start(free_ps, op, demand)
                if since < 0:
                    got = backing
            # The window does not depend on the level: a copy's time is that of the backing port.
            while got < backing:
                # Where it takes the bytes of an operand, these are counted in its first op.
                giver = giver_in(schedule.pairs, links, level, tensor, got)
                begin = since + (giver >= 0)
                if schedule.crowded:
                    if fewest_free((least[got], taken[got]), begin, until) >= size:
                        take((least[got], taken[got]), begin, until, size)
                        break
                elif _has_room(load, schedule.capacity, costs.reserved_bytes, got, begin, until, size):
                    for during in range(begin, until + 1):
                        load[got, during] += size
                    break
                got = schedule.next_level[tensor, got + 1]
            level[tensor] = got
            if got < backing:
                link(links, tensor, giver)
                start[tensor] = since
                if is_copied:
                    picojoules += costs.copy_pj[tensor, got]
                    # The copy takes the earliest free time of its window, which leaves the latest to later copies.
                    for during in range(since, op):
                        booked_ps = min(demand, free_ps[during])
                        free_ps[during] -= booked_ps
                        demand -= booked_ps
        if op >= 0:
            op_ps, busy_ps, use_pj = time_op(schedule, op, level, used_ps)
            latency += op_ps
            picojoules += use_pj
            free_ps[op] = op_ps - busy_ps
    return latency, picojoules


@kernel
def _free_of_levels(capacity, reserved_bytes):
    """Return the bytes that are free in every op (`free_bytes`) of levels int64[n], `least` and `taken` a row each."""
    least, taken = np.empty((len(capacity), 0), dtype=np.int64), np.empty((len(capacity), 0), dtype=np.int64)
    for level in range(len(capacity)):
        profile = new_profile(capacity[level] - reserved_bytes[:, level])
        if level == 0:
            least = np.empty((len(capacity), len(profile[0])), dtype=np.int64)
            taken = np.empty_like(least)
        least[level], taken[level] = profile
    return least, taken


@kernel
def _window_start(free_ps, op, demand):
    """Return the largest s with sum(free_ps[s:op]) >= demand, or -1: the latest start of a copy that `op` needs."""
    gathered = np.int64(0)  # sum of free_ps[start:op]
    for start in range(op - 1, -1, -1):
        gathered += free_ps[start]
        if gathered >= demand:
            return start
    return -1


@kernel
def _has_room(load, capacity, reserved_bytes, level, since, until, size):
    """Return whether a level has `size` bytes left in each of the ops since..until."""
    for op in range(since, until + 1):  # noqa: SIM110  (numba knows no generators)
        if load[level, op] + reserved_bytes[op, level] + size > capacity[level]:
            return False
    return True


@kernel(inline="always")
def _find_addresses(schedule, tensors, offset):
    """Fill in the `offset` int64[K] of blocks; return whether all found one. Those without now request the next level.

    Args:
        schedule: the Schedule.
        tensors: the requested levels int64[K], changed here; level, start and links of each, from `_grant`.
        offset: int64[K], filled in.
    """
    (size, _, last, pin), by_rank, crowded = schedule.blocks, schedule.by_rank, schedule.crowded
    capacity, reserved_bytes = schedule.capacity, schedule.costs.reserved_bytes
    (requested, level, start, links), in_place = tensors, len(schedule.pairs.giver) > 0
    first, fast = np.empty(len(size), dtype=np.int64), np.empty(len(size), dtype=np.bool_)
    # A weight's life begins with its copy, which `_grant` has only just decided: neighbours change in every pass.
    for block in range(len(size)):
        first[block], fast[block] = start[by_rank[block]], level[by_rank[block]] < len(capacity) - 1
    near = no_lists(len(size)) if crowded or in_place else neighbours_of(first, last, fast)
    members, space = np.empty(len(size), dtype=np.uint32), packing_space(len(size))
    ceiling, at, end = np.empty_like(size), np.empty_like(size), np.empty_like(size)
    all_placed = True
    for got in range(len(capacity) - 1):
        count = 0
        # Reserved bytes lie at a level's end, so a block must end below the most that an op of its life reserves.
        for block in range(len(size)):
            if level[by_rank[block]] == got:
                members[count] = block
                ceiling[block] = capacity[got] - most_reserved(reserved_bytes, got, first[block], last[block])
                count += 1
        if in_place:
            arrays = ceiling, at, end, space
            pack_in_place(schedule, (size, first, last, pin), (level, links), got, capacity[got], arrays)
        else:
            pack_level((size, first, last, pin), near, members[:count], ceiling, at, end, space)
        for block in members[:count]:
            offset[by_rank[block]] = at[block]
            if end[block] < 0:
                requested[by_rank[block]] = schedule.next_level[by_rank[block], got + 1]
                all_placed = False
    return all_placed
