"""Copies in the event simulator: in the gaps of the backing memory's port, or on engines by descriptors.

A copy is released when the op before its window has ended. Copies come ordered by deadline, and of those released the
earliest deadline is served first.
"""

from __future__ import annotations

from memplace_env._lib.kernel import kernel
from memplace_env.placement.simulator.event.event_state import (
    BEGUN,
    COPY,
    DUE,
    DUE_DONE,
    DUE_LEFT,
    ENGINE,
    NEVER,
    RELEASE,
    RETIRED,
    URGENT,
    bank_ps,
    note,
    share,
)


@kernel(inline="always")
def look_ahead(state, copy_start, by_start, retire):
    """Set when the next copy is released."""
    state[RELEASE] = NEVER
    if state[BEGUN] < len(by_start):
        start = copy_start[by_start[state[BEGUN]]]
        if start == 0:
            state[RELEASE] = 0
        elif start <= state[RETIRED]:
            state[RELEASE] = retire[start - 1]


@kernel(inline="always")
def release(state, copy_start, by_start, retire, left, released):
    """Release the next copy."""
    copy = by_start[state[BEGUN]]
    state[BEGUN] += 1
    look_ahead(state, copy_start, by_start, retire)
    released[copy] = True
    if left[copy] > 0:
        state[URGENT] = min(state[URGENT], copy)


@kernel(inline="always")
def fall_due(state, op, copy_end, left, done):
    """Count the copies that must be done before an op begins."""
    while state[DUE] < len(copy_end) and copy_end[state[DUE]] < op:
        copy = state[DUE]
        state[DUE_LEFT] += left[copy]
        if left[copy] == 0:
            state[DUE_DONE] = max(state[DUE_DONE], done[copy])
        state[DUE] += 1


@kernel
def fill_gap(until, state, port_free, copy_start, by_start, retire, released, left, done, spans):
    """Let copies have the backing memory's port, without engines, from when it is free to a point in time."""
    backing = len(port_free) - 1
    now = port_free[backing]
    while now < until:
        copy = state[URGENT]
        if state[RELEASE] <= now:
            release(state, copy_start, by_start, retire, left, released)
        elif copy == len(left):
            now = min(until, state[RELEASE])
        else:
            # An earlier deadline may come with the next release.
            served = min(left[copy], until - now, state[RELEASE] - now)
            note(spans, state, COPY, copy, 0, backing, now, now + served)
            now += served
            _finish(state, copy, served, now, released, left, done)
    port_free[backing] = now


@kernel(inline="always")
def run_descriptor(now, state, port_free, engine_free, work, descriptor_ps, place, dram, released, left, done, spans):
    """Run the next descriptor of the most urgent copy on the engine that is free first.

    The engine keeps to its own rate and to the backing memory's port, and takes `descriptor_ps` more.

    Args:
        now: when it begins, picoseconds.
        state, port_free, engine_free, released, left, done, spans: what the kernel keeps.
        work: descriptors of the copy, and picoseconds of the port and of the engine for all of them.
        descriptor_ps: picoseconds.
        place: address, bytes, and whether it writes the backing memory.
        dram: see `bank_ps`.
    """
    copy, backing, engine = state[URGENT], len(port_free) - 1, engine_free.argmin()
    pieces, port_ps, engine_ps = work
    piece = pieces - left[copy]
    address, size, writes = place
    begin = max(now, port_free[backing])
    extra = bank_ps(state, dram, address + size * piece // pieces, writes)
    end = begin + share(port_ps, pieces, piece) + extra
    port_free[backing] = end
    engine_free[engine] = max(end, now + share(engine_ps, pieces, piece)) + descriptor_ps
    note(spans, state, COPY, copy, piece, backing, begin, end)
    note(spans, state, ENGINE, copy, piece, engine, now, engine_free[engine])
    done[copy] = max(done[copy], engine_free[engine])
    _finish(state, copy, 1, done[copy], released, left, done)


@kernel(inline="always")
def _finish(state, copy, part, now, released, left, done):
    """Take a part off what is left of the most urgent copy, in picoseconds or descriptors."""
    left[copy] -= part
    if copy < state[DUE]:
        state[DUE_LEFT] -= part
    if left[copy] == 0:
        done[copy] = now
        if copy < state[DUE]:
            state[DUE_DONE] = max(state[DUE_DONE], now)
        while copy < len(left) and (left[copy] == 0 or not released[copy]):
            copy += 1
        state[URGENT] = copy
