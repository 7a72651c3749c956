"""Room in fast memory: where a new block goes, and what it overwrites.

A gap has two ends, and a block is placed at the end whose neighbour stays longest, so that large gaps stay whole.
Blocks of data that is still of use are spared if there is room beside them, though their space may be taken.

A block lies below what ops reserve for themselves until the last use of its data, or to the end if it is sent back, as
nobody knows when that ends. No copy of data that came from the backing memory is sent back.

While a result asks for room, write-backs that it would wait for count as ended: those before place `until` of the
queue; 0 is nobody.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from memplace_env.envs.malloc_game.state import BLOCKS, LIVE, NEVER, OP, PASSING, PAST, QUEUE_HEAD
from memplace_env.kernel import kernel

BEGIN, END, BELOW, ABOVE = 0, 1, 2, 3
"""Columns of gaps: their addresses, and until which op the neighbours at either end stay."""
FOR_EVER: Final = 2 * NEVER
"""How long the ends of memory stay."""


@kernel(forceinline=True)
def ceiling_from(tables, use, start):
    """Address below which the block of a copy must lie that comes in for a use, from op `start` on."""
    ceiling = tables.ceiling[use, PASSING]
    for op in range(start, tables.use_op[use] - 1):
        ceiling = min(ceiling, tables.usable[op])
    return ceiling


@kernel(forceinline=True)
def has_room(layout, state, size, ceiling, since, until):
    """Whether a block fits that is held from `since`, the current op or the one before, to the current op."""
    cursor = np.int64(0)
    for place in range(layout.live, layout.live + state[LIVE]):
        block = state[place]
        held = state[layout.hold + block]
        if held == NEVER and until > 0:
            held = _held_after(layout, state, block, until)
        if held < since:
            continue
        if min(state[layout.offset + block], ceiling) - cursor >= size:
            return True
        cursor = max(cursor, state[layout.top + block])
    return ceiling - cursor >= size


@kernel
def fit(layout, state, size, ceiling, since, until):
    """Offset of a block that is held from op `since` to the current op, or -1."""
    gaps = new_gaps(state)
    for taken in (layout.stays, layout.hold):
        count = find_gaps(layout, state, size, ceiling, since, until, taken, gaps)
        for place in range(state[PAST] - 1, -1, -1):
            block = state[layout.past + place]
            if count == 0 or state[layout.hold + block] < since:
                break
            count = without_block(layout, state, size, block, gaps, count)
        if count > 0:
            return _best_end(gaps, count, size)
    return np.int64(-1)


@kernel(forceinline=True)
def new_gaps(state):
    """int64[n, 4], empty, with space for all gaps that there may be."""
    return np.empty((state[LIVE] + state[PAST] + 1, 4), np.int64)


@kernel(forceinline=True)
def find_gaps(layout, state, size, ceiling, since, until, taken, gaps):
    """Fill `gaps` with those >= size between live blocks, below a ceiling; returns how many there are.

    Blocks are in the way until the op that section `taken` says: `hold`, or `stays` to spare what is of use.
    """
    count, cursor, below = 0, np.int64(0), FOR_EVER
    for place in range(layout.live, layout.live + state[LIVE]):
        block = state[place]
        held, stays = state[taken + block], state[layout.stays + block]
        if until > 0 and state[layout.hold + block] == NEVER:
            after = _held_after(layout, state, block, until)
            stays = min(stays, after) if stays == NEVER else stays
            held = after if taken == layout.hold else stays
        if held < since:
            continue
        offset, top = state[layout.offset + block], state[layout.top + block]
        if offset >= ceiling:
            break
        if offset - cursor >= size:
            count = _add(gaps, count, cursor, offset, below, stays)
        elif count > 0 and gaps[count - 1, END] == offset:
            gaps[count - 1, ABOVE] = max(gaps[count - 1, ABOVE], stays)
        if top > cursor:
            cursor, below = top, stays
        elif top == cursor:
            below = max(below, stays)
    if ceiling - cursor >= size:
        count = _add(gaps, count, cursor, ceiling, below, FOR_EVER)
    return count


@kernel(forceinline=True)
def without_block(layout, state, size, block, gaps, count):
    """Take the space of a block out of the gaps; returns how many are left."""
    offset, top, stays = state[layout.offset + block], state[layout.top + block], state[layout.stays + block]
    return without(gaps, count, size, offset, top, stays)


@kernel(forceinline=True)
def without(gaps, count, size, low, high, stays):
    """Take addresses low..high-1, which are busy until op `stays`, out of the gaps; returns how many are left."""
    for gap in range(count - 1, -1, -1):
        begin, end = gaps[gap, BEGIN], gaps[gap, END]
        if high < begin or low > end:
            continue
        below, above = gaps[gap, BELOW], gaps[gap, ABOVE]
        if high == begin:
            gaps[gap, BELOW] = max(below, stays)
        elif low == end:
            gaps[gap, ABOVE] = max(above, stays)
        else:
            count -= 1
            _add(gaps, gap, gaps[count, BEGIN], gaps[count, END], gaps[count, BELOW], gaps[count, ABOVE])
            if low - begin >= size:
                count = _add(gaps, count, begin, low, below, stays)
            if end - high >= size:
                count = _add(gaps, count, high, end, stays, above)
    return count


@kernel(forceinline=True)
def _add(gaps, count, begin, end, below, above):
    gaps[count, BEGIN] = begin
    gaps[count, END] = end
    gaps[count, BELOW] = below
    gaps[count, ABOVE] = above
    return count + 1


@kernel(forceinline=True)
def _best_end(gaps, count, size):
    """Offset at the end of a gap whose neighbour stays longest, the lowest of equals."""
    best, longest = np.int64(-1), np.int64(-1)
    for gap in range(count):
        low, below, high, above = gaps[gap, BEGIN], gaps[gap, BELOW], gaps[gap, END] - size, gaps[gap, ABOVE]
        if below > longest or (below == longest and low < best):
            best, longest = low, below
        if above > longest or (above == longest and high < best):
            best, longest = high, above
    return best


@kernel(forceinline=True)
def _held_after(layout, state, block, until):
    """Last op that a protected block is committed to once the write-backs before `until` have ended."""
    tensor = state[layout.tensor + block]
    if state[QUEUE_HEAD] <= state[layout.turn + tensor] < until:
        return max(state[layout.used + tensor], state[OP] - 1)
    return NEVER


@kernel(forceinline=True)
def place(tables, layout, state, tensor, start, offset):
    """Add a block of tensor from op `start` on; cached blocks whose space it takes are dead from now on."""
    top, block, last = offset + tables.size[tensor], state[BLOCKS], layout.live + state[LIVE]
    where = last
    for index in range(layout.live, last):
        other = state[index]
        low = state[layout.offset + other]
        if low > offset and where == last:
            where = index
        if low >= top:
            break
        owner = state[layout.tensor + other]
        if state[layout.top + other] > offset and state[layout.block + owner] == other:
            state[layout.intact + owner] = 0
            state[layout.stays + other] = state[layout.hold + other]
    for index in range(last, where, -1):
        state[index] = state[index - 1]
    state[where] = block
    state[layout.offset + block] = offset
    state[layout.top + block] = top
    state[layout.tensor + block] = tensor
    state[layout.start + block] = start
    state[layout.arrived + block] = -1
    state[layout.released + block] = -1
    state[layout.block + tensor] = block
    state[layout.intact + tensor] = 1
    state[LIVE] += 1
    state[BLOCKS] = block + 1


@kernel(forceinline=True)
def retire(layout, state, op):
    """Once `op` is final: blocks held until the op before it are past; those of no more use are live no longer."""
    kept = layout.live
    for index in range(layout.live, layout.live + state[LIVE]):
        block = state[index]
        if state[layout.hold + block] == op - 1:
            state[layout.past + state[PAST]] = block
            state[PAST] += 1
        if state[layout.stays + block] >= op:
            state[kept] = block
            kept += 1
    state[LIVE] = kept - layout.live


@kernel(forceinline=True)
def revive(layout, state, block):
    """Take a cached block that is used again out of the past."""
    where = layout.past + state[PAST] - 1
    following = state[where]
    while following != block:
        where -= 1
        state[where], following = following, state[where]
    state[PAST] -= 1
