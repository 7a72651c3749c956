"""Copies in the event simulator: in the gaps of the backing memory's port, or on engines by descriptors.

A copy is released when the op before its window has ended. Copies come ordered by deadline, and of those released the
earliest deadline is served first.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.simulator.event.event_state import (
    BEGUN,
    COPY,
    DUE,
    DUE_DONE,
    DUE_LEFT,
    RETIRED,
    bank_ps,
    note,
    share,
)

NEVER = np.int64(2**62)


@kernel(forceinline=True)
def next_release(state, copy_start, by_start, retire):
    """Return when the next copy is released, NEVER if there is none or the op before its window has not ended yet."""
    if state[BEGUN] == len(by_start):
        return NEVER
    start = copy_start[by_start[state[BEGUN]]]
    if start > state[RETIRED]:
        return NEVER
    return retire[start - 1] if start > 0 else np.int64(0)


@kernel
def fall_due(state, op, copy_end, left, done):
    """Count the copies that must be done before an op begins."""
    while state[DUE] < len(copy_end) and copy_end[state[DUE]] < op:
        copy = state[DUE]
        state[DUE_LEFT] += left[copy]
        if left[copy] == 0:
            state[DUE_DONE] = max(state[DUE_DONE], done[copy])
        state[DUE] += 1


@kernel
def fill_gap(until, state, port_free, copy_start, by_start, retire, waiting, left, done, spans):
    """Let copies have the backing memory's port, without engines, from when it is free to a point in time."""
    backing = len(port_free) - 1
    now = port_free[backing]
    while now < until:
        release = next_release(state, copy_start, by_start, retire)
        if release <= now:
            heappush(waiting, by_start[state[BEGUN]])
            state[BEGUN] += 1
        elif len(waiting) == 0:
            now = min(until, release)
        else:
            # An earlier deadline may come with the next release.
            copy = waiting[0]
            served = min(left[copy], until - now, release - now)
            note(spans, state, COPY, copy, 0, backing, now, now + served)
            now += served
            _finish(state, copy, served, now, left, done)
            if left[copy] == 0:
                heappop(waiting)
    port_free[backing] = now


@kernel(forceinline=True)
def engine_time(now, state, engine_free, copy_start, by_start, retire, waiting):
    """Return when the next engine can begin a descriptor, NEVER if there is none to begin; `now`: the last event."""
    if len(engine_free) == 0:
        return NEVER
    free = max(now, engine_free.min())
    if len(waiting) > 0:
        return free
    release = next_release(state, copy_start, by_start, retire)
    return NEVER if release == NEVER else max(free, release)


@kernel
def run_descriptor(
    now, state, port_free, engine_free, copy, pieces, work, descriptor_ps, place, dram, left, done, spans
):
    """Run the next descriptor of a copy on the engine that is free first.

    The engine keeps to its own rate and to the backing memory's port, and takes `descriptor_ps` more.

    Args:
        now: when it begins, picoseconds.
        state, port_free, engine_free, left, done, spans: what the kernel keeps.
        copy: number of the copy.
        pieces: descriptors of it.
        work: picoseconds of the port, and of the engine, for the copy.
        descriptor_ps: picoseconds.
        place: address, bytes, and whether it writes the backing memory.
        dram: see `bank_ps`.
    """
    backing, piece, engine = len(port_free) - 1, pieces - left[copy], engine_free.argmin()
    address, size, writes = place
    begin = max(now, port_free[backing])
    extra = bank_ps(state, dram, address + size * piece // pieces, writes)
    end = begin + share(work[0], pieces, piece) + extra
    port_free[backing] = end
    engine_free[engine] = max(end, now + share(work[1], pieces, piece)) + descriptor_ps
    note(spans, state, COPY, copy, piece, backing, begin, end)
    done[copy] = max(done[copy], engine_free[engine])
    _finish(state, copy, 1, done[copy], left, done)


@kernel(forceinline=True)
def _finish(state, copy, part, now, left, done):
    """Take a part off what is left of a copy, in picoseconds or descriptors."""
    left[copy] -= part
    if left[copy] == 0:
        done[copy] = now
    if copy < state[DUE]:
        state[DUE_LEFT] -= part
        if left[copy] == 0:
            state[DUE_DONE] = max(state[DUE_DONE], now)
