"""Placing on machines whose weights stay: the kernel behind the one-shot environments.

First bytes are counted, in the schedule's order: a tensor gets the fastest level from the requested one down that has
room for it in every op of its life, beside what came before it. Then addresses are chosen, knowing all lives
(`packing`). Weights hold their block for the whole inference, so they stack at the top of a level, below whatever any
op reserves there, and results lie below them. A result that finds no address steps down to the next level that has
the bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.in_place import giver_in, link, no_links, pack_in_place, shares
from memplace_env.placement.compiler.packing import PackingSpace, pack_level, packing_space
from memplace_env.placement.compiler.placing_kernels import most_reserved, reassigned_bytes, requested_level, time_op
from memplace_env.program.program import Ints


class _Space(NamedTuple):
    """Scratch for one assignment at a time, made once; R results, by rank where they are counted.

    Attributes:
        offset: int64[K], of weights.
        result_offset, end, ceiling: int64[R], see `pack_level`.
        members: uint32[R], the same.
        packing: the scratch of `pack_level`.
        load: int64[L-1, T+1], bytes of results by level and op, see `_grant` and `_find_addresses`.
        live, peak: int64[L-1], see `_grant`.
        room: int64[L-1], bytes below the weights of each level, which results may lie in.
        links: int64[2, K], who took whose bytes, see `in_place`.
        used_ps: int64[L], see `time_op`.
    """

    offset: Ints
    result_offset: Ints
    end: Ints
    ceiling: Ints
    members: NDArray[np.uint32]
    packing: PackingSpace
    load: Ints
    live: Ints
    peak: Ints
    room: Ints
    links: Ints
    used_ps: Ints


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
    space = _new_space(schedule)
    _place_each(schedule, assignments, decision_of, out, levels, first, last, space)
    for block in range(len(schedule.by_rank)):
        space.offset[schedule.by_rank[block]] = space.result_offset[block]
    return space.offset, np.zeros_like(space.offset)


@kernel
def _new_space(schedule):
    """Return the scratch for the assignments of a schedule."""
    tensors, results = len(schedule.tensor_bytes), len(schedule.by_rank)
    fast, ops = len(schedule.capacity) - 1, len(schedule.use_ptr) - 1
    return _Space(
        np.zeros(tensors, dtype=np.int64),
        np.zeros(results, dtype=np.int64),
        np.empty(results, dtype=np.int64),
        np.empty(results, dtype=np.int64),
        np.empty(results, dtype=np.uint32),
        packing_space(results),
        np.empty((fast, ops + 1), dtype=np.int64),
        np.empty(fast, dtype=np.int64),
        np.empty(fast, dtype=np.int64),
        np.empty(fast, dtype=np.int64),
        no_links(schedule.pairs),
        np.zeros(fast + 1, dtype=np.int64),
    )


@kernel(borrows=True)
def _place_each(schedule, assignments, decision_of, out, levels, first, last, space):
    """Place and time the assignments one by one, see `place_all`."""
    # Each pass reads and writes its own row only, so that ranges may run in threads side by side.
    for index in range(first, last):
        assignment, level = assignments[index], levels[index]
        _grant(schedule, assignment, decision_of, level, space)
        _find_addresses(schedule, level, space)
        out[0, index], out[1, index] = _time(schedule, level, space.used_ps)
        out[2, index] = reassigned_bytes(schedule, assignment, decision_of, level)


@kernel(inline="always")
def _grant(schedule, assignment, decision_of, level, space):
    """Fill in the `level` int8[K] that each tensor gets by bytes, the offset of weights, and the room below them."""
    backing, items = len(schedule.capacity) - 1, schedule.item_tensor
    sizes, is_weight, in_order = schedule.tensor_bytes, schedule.item_is_weight, schedule.in_order
    live_start, live_end = schedule.live_start, schedule.live_end
    load, live, peak, room, next_level = space.load, space.live, space.peak, space.room, schedule.next_level
    # A weight stays for all ops, so what any op reserves at the end of a level is lost to weights at all times.
    for fast in range(backing):
        room[fast] = schedule.capacity[fast]
        if schedule.any_reserved:
            room[fast] -= most_reserved(schedule.costs.reserved_bytes, fast, 0, len(schedule.use_ptr) - 2)
    # In order: `live` bytes of results are alive at op `now`, load[l, t] of them die before op t. Else load[l, t] are
    # the bytes alive at op t. `peak` is the most of either so far.
    load[:], live[:], peak[:], level[:] = 0, 0, 0, backing
    now = 0
    # Items come in the schedule's order; each steps down until it has room beside those before it.
    for item in range(len(items)):
        tensor = items[item]
        wanted = requested_level(assignment, decision_of, tensor, backing)
        size, got = sizes[tensor], schedule.asked_level[tensor, wanted]
        if is_weight[item]:
            while got < backing and peak[got] + size > room[got]:
                got = next_level[tensor, got + 1]
            if got < backing:  # weights stack downwards from the top
                room[got] -= size
                space.offset[tensor] = room[got]
        elif in_order:  # what is alive now is the most that will be, and `load` holds what dies before each op
            while now < live_start[tensor]:
                now += 1
                for fast in range(backing):
                    live[fast] -= load[fast, now]
            while got < backing and live[got] + size > room[got]:
                got = next_level[tensor, got + 1]
            if got < backing:
                live[got] += size
                load[got, live_end[tensor] + 1] += size
                peak[got] = max(peak[got], live[got])
        else:
            life = live_start[tensor], live_end[tensor]
            got = _take_bytes(schedule, space, level, tensor, got, life, size)
        level[tensor] = got


@kernel(borrows=True)
def _take_bytes(schedule, space, level, tensor, got, life, size):
    """Take `size` bytes for a result's life in the fastest level, from `got` down, that has them; return the level.

    In `space`, `load` are bytes taken in each op, `room` those that may be, `peak` the most that are.
    """
    load, room, peak = space.load, space.room, space.peak
    first, last = life
    # Ends with the number of the backing memory, len(room), where no level has the bytes.
    while got < len(room):
        # Where it takes the bytes of an operand, these are counted in its first op.
        giver = giver_in(schedule.pairs, space.links, level, tensor, got)
        begin, highest = first + (giver >= 0), np.int64(0)
        for op in range(begin, last + 1):
            highest = max(highest, load[got, op] + size)
        if highest <= room[got]:
            for op in range(begin, last + 1):
                load[got, op] += size
            peak[got] = max(peak[got], highest)
            link(space.links, tensor, giver)
            break
        got = schedule.next_level[tensor, got + 1]
    return got


@kernel(inline="always")
def _find_addresses(schedule, level, space):
    """Give results their offsets, and a lower `level` to those that find none."""
    blocks, near, results, ops = schedule.blocks, schedule.near, schedule.by_rank, len(schedule.use_ptr) - 1
    size, first, last, _ = blocks
    members, ceiling, end, room, load = space.members, space.ceiling, space.end, space.room, space.load
    # Fastest level first: what finds no address there is a member of a lower level before that is packed.
    for fast in range(len(room)):
        count = 0
        # Without a branch: each block is written behind the last member, and counts if its level is this one.
        for block in range(len(results)):
            ceiling[block] = room[fast]
            members[count] = block
            count += level[results[block]] == fast
        if len(schedule.pairs.giver) > 0:
            arrays = ceiling, space.result_offset, end, space.packing
            lost = pack_in_place(schedule, blocks, (level, space.links), fast, room[fast], arrays)
        else:
            lost = pack_level(blocks, near, members[:count], ceiling, space.result_offset, end, space.packing)
        if lost == 0:
            continue
        # Rare: bytes of all results in each op, beside which those without an address look for bytes again. First the
        # change with each op, which adds up.
        load[:], space.peak[:] = 0, 0
        for block in range(len(results)):
            if level[results[block]] < len(room):
                load[level[results[block]], first[block]] += size[block]
                load[level[results[block]], last[block] + 1] -= size[block]
                if len(schedule.pairs.giver) > 0 and shares(space.links, level, results[block]):
                    load[level[results[block]], first[block]] -= size[block]
                    load[level[results[block]], first[block] + 1] += size[block]
        for other in range(fast + 1, len(room)):
            total = np.int64(0)
            for op in range(ops):
                total += load[other, op]
                load[other, op] = total
        for block in members[:count]:
            if end[block] < 0:
                tensor, life = results[block], (first[block], last[block])
                lower = schedule.next_level[tensor, fast + 1]
                level[tensor] = _take_bytes(schedule, space, level, tensor, lower, life, size[block])


@kernel(inline="always")
def _time(schedule, level, used_ps):
    """Return latency in ps and dynamic energy in pJ with every tensor in its `level` int8[K]."""
    latency, picojoules = np.int64(0), np.int64(schedule.all_compute_pj)
    for op in range(len(schedule.use_ptr) - 1):
        op_ps, _, use_pj = time_op(schedule, op, level, used_ps)
        latency += op_ps
        picojoules += use_pj
    return latency, picojoules
