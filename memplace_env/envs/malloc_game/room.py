"""Room in fast memory: where a new block goes, and what it overwrites.

A gap has two ends, and a block is placed at the end whose neighbour is live longest, so that large gaps stay whole.
Blocks with uses left are spared if there is room beside them, though their space may be taken.

A block lies below what ops reserve for themselves until the last use of its data, or to the end if it is sent back, as
the end of a write-back is not known in advance. No copy of data that came from the backing memory is sent back.

A result goes where an operand lies whose place it may take, if a block of one ends with the op: it needs no other room.

While room for a result is sought, write-backs that its op would wait for count as ended: those before index `until` of
the queue; 0 stands for none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.state import BLOCKS, GIVERS, LIVE, NEVER, OP, PASSING, PAST, QUEUE_HEAD, USE

BEGIN, END, BELOW, ABOVE = 0, 1, 2, 3
"""Columns of gaps: their addresses, and until which op the neighbours at either end are live."""
FOR_EVER: Final = 2 * NEVER
"""Op until which the ends of memory are live: later than that of any block, protected ones included."""


@kernel(borrows=True, forceinline=True)
def ceiling_from(tables, use, start):
    """Address below which the block of a copy must lie that comes in for a use, from op `start` on."""
    ceiling = tables.room[use, PASSING]
    # The table covers op use_op - 1 onwards; add what ops start..use_op - 2 reserve.
    for op in range(start, tables.use_op[use] - 1):
        ceiling = min(ceiling, tables.usable[op])
    return ceiling


@kernel(borrows=True, forceinline=True)
def has_room(layout, state, size, ceiling, since, until):
    """Return whether a block fits that is needed from op `since`, the current one or the one before, to the current op.

    Only live blocks are looked at: all others have been free since before `since`.
    """
    # Invariant: addresses below `cursor` are busy or belong to gaps that are too small.
    cursor = np.int64(0)
    for index in range(layout.live, layout.live + state[LIVE]):
        block = state[index]
        busy_until = state[layout.committed_until + block]
        if busy_until == NEVER and until > 0:
            busy_until = _committed_after(layout, state, block, until)
        if busy_until < since:
            continue
        if min(state[layout.offset + block], ceiling) - cursor >= size:
            return True
        # Blocks that were busy at different times may overlap, so that the highest top counts.
        cursor = max(cursor, state[layout.top + block])
    return ceiling - cursor >= size


@kernel(borrows=True, forceinline=True)
def given_block(tables, layout, state, ceiling, until):
    """Return the block of an operand that the current op's next result takes the place of, or -1.

    It ends with the op, unless a copy is still to come out of it or another result has taken it.
    """
    if tables.room.shape[1] == GIVERS:
        return np.int64(-1)
    return _first_given(layout, state, tables.room[state[USE]], ceiling, until)


@kernel(borrows=True)
def _first_given(layout, state, row, ceiling, until):
    """Return the same of a row of `Tables.room`; apart, as it is rarely called."""
    for column in range(GIVERS, len(row)):
        tensor = row[column]
        if tensor < 0 or state[layout.intact + tensor] == 0:
            continue
        block = state[layout.block + tensor]
        last = state[layout.committed_until + block]
        if last == NEVER and until > 0:
            last = _committed_after(layout, state, block, until)
        if last == state[OP] and state[layout.top + block] <= ceiling:
            return block
    return np.int64(-1)


@kernel(borrows=True, forceinline=True)
def place_of_result(tables, layout, state, size, ceiling, until):
    """Return (offset, block whose place it takes) of the current op's next result, -1 each if there is none."""
    given = given_block(tables, layout, state, ceiling, until)
    if given >= 0:
        return state[layout.offset + given], given
    return fit(layout, state, size, ceiling, state[OP], until), given


@kernel
def fit(layout, state, size, ceiling, since, until):
    """Return the offset of a block that is needed from op `since` to the current op, or -1."""
    # `past` is sorted by `committed_until`: from its end backwards, blocks busy in `since` or later come first.
    # With `since` the current op or the one before there are none, as those are live.
    oldest = layout.past + state[PAST]
    while oldest > layout.past and state[layout.committed_until + state[oldest - 1]] >= since:
        oldest -= 1
    gaps = new_gaps(state[LIVE] + layout.past + state[PAST] - oldest)
    # First beside the blocks with uses left, then in their space.
    for busy_section in (layout.live_until, layout.committed_until):
        count = find_gaps(layout, state, size, ceiling, since, until, busy_section, gaps)
        for index in range(layout.past + state[PAST] - 1, oldest - 1, -1):
            if count == 0:
                break
            count = without_block(layout, state, size, state[index], gaps, count)
        if count > 0:
            return _best_end(gaps, count, size)
    return np.int64(-1)


@kernel(forceinline=True)
def new_gaps(blocks):
    """Return int64[blocks + 1, 4], uninitialised: so many gaps there are at most between and beside the blocks."""
    return np.empty((blocks + 1, 4), np.int64)


@kernel(borrows=True, forceinline=True)
def find_gaps(layout, state, size, ceiling, since, until, busy_section, gaps):
    """Fill `gaps` with those >= size between live blocks, below a ceiling; returns how many there are.

    A block is in the way until the op in section `busy_section`: `committed_until`, or `live_until` to spare blocks
    with uses left.
    """
    # Blocks come by offset. Invariant: the gaps below `cursor` are listed; `cursor` is the highest top
    # so far, and `below` the op until which the longest-lived of the blocks with that top is live.
    count, cursor, below = 0, np.int64(0), FOR_EVER
    for index in range(layout.live, layout.live + state[LIVE]):
        block = state[index]
        busy_until, live_until = state[busy_section + block], state[layout.live_until + block]
        if until > 0 and state[layout.committed_until + block] == NEVER:
            after = _committed_after(layout, state, block, until)
            live_until = min(live_until, after) if live_until == NEVER else live_until
            busy_until = after if busy_section == layout.committed_until else live_until
        if busy_until < since:
            continue
        offset, top = state[layout.offset + block], state[layout.top + block]
        if offset >= ceiling:
            break
        if offset - cursor >= size:
            count = _add(gaps, count, cursor, offset, below, live_until)
        elif count > 0 and gaps[count - 1, END] == offset:
            # A second block with the offset at which the latest gap ends: the neighbour that is live longest counts.
            gaps[count - 1, ABOVE] = max(gaps[count - 1, ABOVE], live_until)
        if top > cursor:
            cursor, below = top, live_until
        elif top == cursor:
            below = max(below, live_until)
    if ceiling - cursor >= size:
        count = _add(gaps, count, cursor, ceiling, below, FOR_EVER)
    return count


@kernel(borrows=True, forceinline=True)
def without_block(layout, state, size, block, gaps, count):
    """Take the space of a block out of the gaps; returns how many are left."""
    offset, top = state[layout.offset + block], state[layout.top + block]
    return without(gaps, count, size, offset, top, state[layout.live_until + block])


@kernel(borrows=True, forceinline=True)
def without(gaps, count, size, low, high, live_until):
    """Take addresses low..high-1, which are busy until op `live_until`, out of the gaps; returns how many are left."""
    # Backwards: a gap that goes is replaced by the last one, which has been looked at, as have the parts added at the
    # end. At most one more gap results than there was, since only one can enclose the addresses on both sides.
    for gap in range(count - 1, -1, -1):
        begin, end = gaps[gap, BEGIN], gaps[gap, END]
        if high < begin or low > end:
            continue
        below, above = gaps[gap, BELOW], gaps[gap, ABOVE]
        if high == begin:
            gaps[gap, BELOW] = max(below, live_until)
        elif low == end:
            gaps[gap, ABOVE] = max(above, live_until)
        else:
            count -= 1
            _add(gaps, gap, gaps[count, BEGIN], gaps[count, END], gaps[count, BELOW], gaps[count, ABOVE])
            if low - begin >= size:
                count = _add(gaps, count, begin, low, below, live_until)
            if end - high >= size:
                count = _add(gaps, count, high, end, live_until, above)
    return count


@kernel(borrows=True, forceinline=True)
def _add(gaps, count, begin, end, below, above):
    gaps[count, BEGIN] = begin
    gaps[count, END] = end
    gaps[count, BELOW] = below
    gaps[count, ABOVE] = above
    return count + 1


@kernel(borrows=True, forceinline=True)
def _best_end(gaps, count, size):
    """Return the offset at the end of a gap whose neighbour is live longest, the lowest of equals."""
    best, longest = np.int64(-1), np.int64(-1)
    # Gaps are in no order, so that ties are broken by comparing offsets.
    for gap in range(count):
        low, below, high, above = gaps[gap, BEGIN], gaps[gap, BELOW], gaps[gap, END] - size, gaps[gap, ABOVE]
        if below > longest or (below == longest and low < best):
            best, longest = low, below
        if above > longest or (above == longest and high < best):
            best, longest = high, above
    return best


@kernel(borrows=True, forceinline=True)
def _committed_after(layout, state, block, until):
    """Return the last op for which a protected block is needed once the write-backs before `until` have ended."""
    tensor = state[layout.tensor + block]
    # A write-back that is waited for ends in the op before the current one, see `port.wait_for`.
    if state[QUEUE_HEAD] <= state[layout.turn + tensor] < until:
        return max(state[layout.used + tensor], state[OP] - 1)
    return NEVER


@kernel(borrows=True, forceinline=True)
def place(tables, layout, state, tensor, start, offset):
    """Add a block of a tensor from op `start` on; cached blocks whose space it takes lose their data."""
    top, block, last = offset + tables.size[tensor], state[BLOCKS], layout.live + state[LIVE]
    where = last
    # Live blocks come by offset: `where` becomes the index of the first above the new one, and blocks from its top on
    # cannot overlap it. An overlapped block loses its data if it is still its tensor's latest.
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
            state[layout.live_until + other] = state[layout.committed_until + other]
    # Make room in the list for the new block.
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


@kernel(borrows=True, forceinline=True)
def retire(layout, state, op):
    """Once `op` is final: blocks needed until the op before it are past; those with no uses left are no longer live."""
    # `live_end` <= `index`, so that the list shrinks in place. Each block joins `past` in the op after its last one,
    # which keeps that list sorted by `committed_until`.
    live_end = layout.live
    for index in range(layout.live, layout.live + state[LIVE]):
        block = state[index]
        if state[layout.committed_until + block] == op - 1:
            state[layout.past + state[PAST]] = block
            state[PAST] += 1
        if state[layout.live_until + block] >= op:
            state[live_end] = block
            live_end += 1
    state[LIVE] = live_end - layout.live


@kernel(borrows=True, forceinline=True)
def revive(layout, state, block):
    """Take a cached block that is used again out of the past."""
    # Search from the end of the list, and shift the blocks behind it down by one on the way.
    where = layout.past + state[PAST] - 1
    following = state[where]
    while following != block:
        where -= 1
        state[where], following = following, state[where]
    state[PAST] -= 1
