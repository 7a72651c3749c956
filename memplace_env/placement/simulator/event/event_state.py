"""State of the event simulator's kernels: one array of counters, and the rows that a picture needs.

Parts of the loop are inlined by numba, not by LLVM, and get numbers rather than arrays where that is possible: each
array that is passed to a function is counted atomically, which takes longer than most of these functions.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel

PATH, BANK, WRITES, DUE, DUE_LEFT, DUE_DONE, BEGUN, RELEASE, URGENT, RETIRED, SPANS, COUNTERS = range(12)
"""Indices of the counters. PATH: when serial ports' common path is free. BANK, WRITES: bank of the last request to the
backing memory, and whether it wrote; -1 before the first. DUE: copies that are due before the next op to begin;
DUE_LEFT: what is left of them; DUE_DONE: when the last finished one of them was done. BEGUN: copies of `by_start` that
have been released; RELEASE: when the next one is, NEVER if there is none or the op before its window has not ended yet;
URGENT: of those that are released and not done the one with the first deadline, the number of copies if there is none.
RETIRED: ops whose end is known. SPANS: rows that there are for a picture."""
LOAD, UNIT, WRITE, COPY, ENGINE = range(5)
"""Kinds of spans."""
NEVER = np.int64(2**62)
"""Picoseconds."""
SPAN = ("kind", "number", "part", "level", "begin", "end")
"""Columns of a span: its kind; number of the op, or of the copy by deadline; tile or descriptor; level or engine;
picoseconds."""


@kernel(inline="always")
def share(whole, parts, part):
    """Return the part of a number in equal parts: they add up, and differ by at most 1, larger ones first."""
    if whole == 0:
        return whole
    each = whole // parts
    return each + (1 if part < whole - each * parts else 0)


@kernel(inline="always")
def note(spans, state, kind, number, part, level, begin, end):
    """Count a span, and write it down while there are rows for it."""
    row = state[SPANS]
    state[SPANS] = row + 1
    if row < len(spans):
        spans[row, 0], spans[row, 1], spans[row, 2] = kind, number, part
        spans[row, 3], spans[row, 4], spans[row, 5] = level, begin, end


@kernel(inline="always")
def bank_ps(state, dram, address, writes):
    """Return what banks and turns add to a request to the backing memory, and remember the request.

    The controllers that the constants are from turn round after 16 bursts at the least; a tile's request has more, so
    that each change is paid for.

    Args:
        state: the counters.
        dram: banks or 0, interleave_bytes, same_bank_ps, read_to_write_ps, write_to_read_ps.
        address: where the request's bytes begin.
        writes: 1 or 0.
    """
    banks, interleave_bytes, same_bank_ps, read_to_write_ps, write_to_read_ps = dram
    extra = 0
    if banks > 0:
        bank = address // interleave_bytes % banks
        if bank == state[BANK]:
            extra += same_bank_ps
        if state[WRITES] >= 0 and state[WRITES] != writes:
            extra += read_to_write_ps if writes else write_to_read_ps
        state[BANK], state[WRITES] = bank, writes
    return extra
