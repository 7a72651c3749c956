"""State of the event simulator's kernels: one array of counters, and the rows that a picture needs."""

from __future__ import annotations

from memplace_env._lib.kernel import kernel

PATH, BANK, WRITES, DUE, DUE_LEFT, DUE_DONE, BEGUN, RETIRED, SPANS, COUNTERS = range(10)
"""Indices of the counters. PATH: when serial ports' common path is free. BANK, WRITES: bank of the last request to the
backing memory, and whether it wrote; -1 before the first. DUE: copies that are due before the next op to begin;
DUE_LEFT: what is left of them; DUE_DONE: when the last finished one of them was done. BEGUN: copies of `by_start` that
have been released. RETIRED: ops whose end is known. SPANS: rows that there are for a picture."""
LOAD, UNIT, WRITE, COPY = range(4)
"""Kinds of spans."""
SPAN = ("kind", "number", "part", "level", "begin", "end")
"""Columns of a span: its kind; number of the op, or of the copy by deadline; tile or descriptor; level; picoseconds."""


@kernel(forceinline=True)
def share(whole, parts, part):
    """Return the part of a number in equal parts: they add up, and differ by at most 1, larger ones first."""
    return whole // parts + (1 if part < whole % parts else 0)


@kernel(forceinline=True)
def note(spans, state, kind, number, part, level, begin, end):
    """Count a span, and write it down while there are rows for it."""
    row = state[SPANS]
    state[SPANS] = row + 1
    if row < len(spans):
        spans[row, 0], spans[row, 1], spans[row, 2] = kind, number, part
        spans[row, 3], spans[row, 4], spans[row, 5] = level, begin, end


@kernel(forceinline=True)
def bank_ps(state, dram, address, writes):
    """Return what banks and turns add to a request to the backing memory, and remember the request.

    The controllers that the constants are from turn round after 16 bursts at the least; a tile's request has more, so
    that each change is paid for.

    Args:
        state: the counters.
        dram: int64[5], banks or 0, interleave_bytes, same_bank_ps, read_to_write_ps, write_to_read_ps.
        address: where the request's bytes begin.
        writes: 1 or 0.
    """
    if dram[0] == 0:
        return 0
    bank = address // dram[1] % dram[0]
    extra = dram[2] if bank == state[BANK] else 0
    if state[WRITES] >= 0 and state[WRITES] != writes:
        extra += dram[3] if writes else dram[4]
    state[BANK], state[WRITES] = bank, writes
    return extra
