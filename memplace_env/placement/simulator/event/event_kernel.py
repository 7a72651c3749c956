"""The event simulator as a compiled loop, in integer picoseconds.

Four streams of events, each in order: loads of tiles, loads that wait for the op before, stores of tiles, descriptors
of copies. The loop takes the earliest event; of several at once late loads, then stores, loads, descriptors. Ports are
queues in the order of events. Without tiles an op is one event: its requests and its unit begin together, and the next
op begins when all have ended, as in `builtin`.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.simulator.event.event_copies import (
    fall_due,
    fill_gap,
    look_ahead,
    release,
    run_descriptor,
)
from memplace_env.placement.simulator.event.event_state import (
    BANK,
    COUNTERS,
    DUE_DONE,
    DUE_LEFT,
    LOAD,
    NEVER,
    PATH,
    RELEASE,
    RETIRED,
    SPANS,
    UNIT,
    URGENT,
    WRITE,
    WRITES,
    bank_ps,
    note,
    share,
)
from memplace_env.placement.simulator.event.event_tables import EARLY, LATE, STORE


@kernel(error_model="numpy")
def run_events(costs, tables, tiles, switches, dram, spans):
    """Run one plan.

    Args:
        costs: compute_ps, overhead_ps int64[T], and whether ports are serial.
        tables: the `PlanTables`, with start, end and demand_ps of the copies in place of `copies`.
        tiles: int64[T], see `TaskTables`.
        switches: int64[4], tile buffers or 0, ops in flight, engines or 0, descriptor_ps.
        dram: int64[5], see `bank_ps`.
        spans: int64[S, 6], rows to be filled.

    Returns:
        `_op_times`; the tail, picoseconds; number of spans, those without a row too.
    """
    compute_ps, overhead_ps, serial = costs
    request_ps, address, size, copy_start, copy_end, demand_ps, copy_pieces = tables[:7]
    engine_ps, copy_address, copy_size, copy_writes = tables[7:]
    buffers, in_flight, engines, descriptor_ps = switches
    ops, _, levels = request_ps.shape
    backing, copies = levels - 1, len(copy_start)
    banks = dram[0], dram[1], dram[2], dram[3], dram[4]  # numbers are passed faster than an array
    is_late = np.zeros(ops, dtype=np.bool_)
    for op in range(1, ops):
        for level in range(levels):
            is_late[op] |= request_ps[op, LATE, level] > 0
    state = np.zeros(COUNTERS, dtype=np.int64)
    state[BANK] = state[WRITES] = -1
    port_free, port_ps = np.zeros(levels, dtype=np.int64), np.zeros((ops, levels), dtype=np.int64)
    retire, due_ps = np.zeros(ops, dtype=np.int64), np.zeros(ops, dtype=np.int64)
    # Copies: what is left of each, in picoseconds or in descriptors.
    by_start = np.argsort(copy_start, kind="mergesort")
    left, done = demand_ps.copy() if engines == 0 else copy_pieces.copy(), np.zeros(len(copy_start), dtype=np.int64)
    engine_free = np.zeros(engines, dtype=np.int64)
    released = np.zeros(copies, dtype=np.bool_)
    state[URGENT] = copies
    look_ahead(state, copy_start, by_start, retire)
    # Tiles under way: their number is counted over all ops, and a ring holds the times of the last ones.
    ring = max(buffers, 1)
    issued, loaded = np.zeros(ring, dtype=np.int64), np.zeros(ring, dtype=np.int64)
    computed, freed = np.zeros(ring, dtype=np.int64), np.zeros(ring, dtype=np.int64)
    # Op and tile at the head of each stream, and tiles that have passed it.
    load_op, load_tile, loads = 0, 0, 0
    late_op, late_tile, lates = 0, 0, 0
    store_op, store_tile, stores = 0, 0, 0
    now = last_load = last_late = last_unit = last_store = last_freed = np.int64(0)
    while True:
        # 1. When could each stream go on?
        load_time = late_time = store_time = NEVER
        if load_op < ops and (load_tile > 0 or load_op - in_flight < state[RETIRED]) and loads - stores < ring:
            load_time = max(last_load, freed[loads % ring])
            if load_tile == 0:
                fall_due(state, load_op, copy_end, left, done)
                load_time = max(load_time, state[DUE_DONE])
                if load_op >= in_flight:
                    load_time = max(load_time, retire[load_op - in_flight])
                if state[DUE_LEFT] > 0:
                    # Without engines copies due get the port as long as no op asks for it, so not before that.
                    load_time = max(load_time, port_free[backing] + state[DUE_LEFT]) if engines == 0 else NEVER
        if lates < loads:
            late_time = max(last_late, issued[lates % ring])
            if is_late[late_op]:
                late_time = max(late_time, retire[late_op - 1]) if late_op <= state[RETIRED] else NEVER
        if stores < lates:
            store_time = max(last_store, computed[stores % ring])
        copy_time = NEVER
        if engines > 0 and (state[URGENT] < copies or state[RELEASE] < NEVER):
            copy_time = max(now, engine_free.min())
            if state[URGENT] == copies:
                copy_time = max(copy_time, state[RELEASE])
        now = min(load_time, late_time, store_time, copy_time)
        if now == NEVER:
            break
        # 2. The earliest goes on.
        if late_time == now:
            op, tile, slot = late_op, late_tile, lates % ring
            kind, first_kind, last_kind, end = LOAD, LATE, LATE, loaded[slot]
        elif store_time == now:
            op, tile, slot = store_op, store_tile, stores % ring
            kind, first_kind, last_kind, end = WRITE, STORE, STORE, computed[slot]
        elif load_time == now:
            if load_tile == 0:
                if state[DUE_LEFT] > 0:
                    fill_gap(now, state, port_free, copy_start, by_start, retire, released, left, done, spans)
                    continue
                due_ps[load_op] = state[DUE_DONE]
            op, tile, slot = load_op, load_tile, loads % ring
            kind, first_kind, last_kind, end = LOAD, EARLY, EARLY if buffers > 0 else STORE, now
        else:
            while state[RELEASE] <= now:
                release(state, copy_start, by_start, retire, left, released)
            copy = state[URGENT]
            place = copy_address[copy], copy_size[copy], np.int64(copy_writes[copy])
            work = copy_pieces[copy], demand_ps[copy], engine_ps[copy]
            run_descriptor(
                now, state, port_free, engine_free, work, descriptor_ps, place, banks, released, left, done, spans
            )
            continue
        # 3. Its requests queue at their ports; serial ports share one path, the backing memory first.
        for nth in range(levels):
            level = backing if nth == 0 else nth - 1
            for which in range(first_kind, last_kind + 1):
                busy = share(request_ps[op, which, level], tiles[op], tile)
                if busy == 0:
                    continue
                begin = max(now, state[PATH]) if serial else now
                writes = 1 if which == STORE else 0
                if level == backing:
                    wanted = engines == 0 and (state[URGENT] < copies or state[RELEASE] < begin)
                    if wanted and port_free[backing] < begin:
                        fill_gap(begin, state, port_free, copy_start, by_start, retire, released, left, done, spans)
                    busy += bank_ps(state, banks, address[op, which] + size[op, which] * tile // tiles[op], writes)
                begin = max(begin, port_free[level])
                port_free[level] = begin + busy
                if serial:
                    state[PATH] = begin + busy
                port_ps[op, level] += busy
                end = max(end, begin + busy)
                note(spans, state, WRITE if which == STORE else LOAD, op, tile, level, begin, begin + busy)
        # 4. What follows: late loads after loads, the unit after those, stores after the unit.
        if buffers == 0:
            end = max(end, now + compute_ps[op])
            note(spans, state, UNIT, op, 0, -1, now, now + compute_ps[op])
            retire[op] = end + overhead_ps[op]
            state[RETIRED] = op + 1
            look_ahead(state, copy_start, by_start, retire)
            load_op += 1
        elif kind == WRITE:
            last_store, stores = now, stores + 1
            last_freed = max(last_freed, end)
            freed[slot] = last_freed
            store_tile += 1
            if store_tile == tiles[op]:
                retire[op] = last_freed
                state[RETIRED] = op + 1
                look_ahead(state, copy_start, by_start, retire)
                store_op, store_tile = store_op + 1, 0
        elif first_kind == EARLY:
            last_load, loads = now, loads + 1
            issued[slot], loaded[slot] = now, end
            load_tile += 1
            if load_tile == tiles[op]:
                load_op, load_tile = load_op + 1, 0
        else:
            last_late, lates = now, lates + 1
            begin = max(end, last_unit)
            last_unit = begin + share(compute_ps[op] + overhead_ps[op], tiles[op], tile)
            computed[slot] = last_unit
            note(spans, state, UNIT, op, tile, -1, begin, last_unit)
            late_tile += 1
            if late_tile == tiles[op]:
                late_op, late_tile = late_op + 1, 0
    finish = retire[ops - 1]
    if engines == 0:
        fill_gap(finish, state, port_free, copy_start, by_start, retire, released, left, done, spans)
        rest = max(port_free[backing], finish) + left.sum()
        fill_gap(rest, state, port_free, copy_start, by_start, retire, released, left, done, spans)
        finish = max(finish, rest)
    elif len(done) > 0:
        finish = max(finish, done.max())
    return _op_times(retire, due_ps, port_ps, serial), finish - retire[ops - 1], state[SPANS]


@kernel
def _op_times(retire, due_ps, port_ps, serial):
    """Return int64[T] each, time of ops, time of their ports together, `port_ps`, and stalls.

    Args:
        retire: int64[T], ends of ops.
        due_ps: int64[T], when the last copy was done that each op waited for.
        port_ps: int64[T, L].
        serial: whether an op's ports take turns.
    """
    op_ps, memory_ps, stall_ps = np.empty_like(retire), np.empty_like(retire), np.empty_like(retire)
    before = np.int64(0)
    for op in range(len(retire)):
        stall_ps[op] = max(due_ps[op] - before, 0)
        op_ps[op] = retire[op] - before - stall_ps[op]
        memory_ps[op] = port_ps[op].sum() if serial else port_ps[op].max()
        before = retire[op]
    return op_ps, memory_ps, port_ps, stall_ps
