"""Room in fast memory: where a new block goes, and what it overwrites.

A gap has two ends, and a block is placed at the end whose neighbour stays longest, so that large gaps stay whole. Blocks
of data that is still of use are spared if there is room beside them, though their space may be taken.

While a result asks for room, write-backs that it would wait for count as ended: those before place `until` of the
queue; 0 is nobody.
"""

from __future__ import annotations

import numpy as np

from memplace_env.envs.malloc_game.state import BLOCKS, LIVE, NEVER, OP, PAST, QUEUE_HEAD, USE
from memplace_env.kernel import kernel

BEGIN, END, BELOW, ABOVE = 0, 1, 2, 3
"""Columns of gaps: their addresses, and until which op the neighbours at either end stay."""


@kernel
def has_room(tables, layout, state, size, since, until):
    """Whether a block fits that is held from `since`, the current op or the one before, to the current op."""
    cursor, ceiling = np.int64(0), tables.ceiling[since]
    for place in range(state[LIVE]):
        block = state[layout.live + place]
        if _held(layout, state, block, until) < since:
            continue
        offset = state[layout.offset + block]
        if min(offset, ceiling) - cursor >= size:
            return True
        cursor = max(cursor, offset + tables.size[state[layout.tensor + block]])
    return ceiling - cursor >= size


@kernel
def fit(tables, layout, state, size, since, until):
    """Offset of a block that is held from op `since` to the current op, or -1."""
    gaps = new_gaps(state)
    for spare in (True, False):
        count = find_gaps(tables, layout, state, size, since, until, spare, gaps)
        for place in range(state[PAST] - 1, -1, -1):
            block = state[layout.past + place]
            if count == 0 or state[layout.hold + block] < since:
                break
            count = without_block(tables, layout, state, size, block, gaps, count)
        if count > 0:
            return _best_end(gaps, count, size)
    return np.int64(-1)


@kernel
def new_gaps(state):
    """int64[n, 4], empty, with space for all gaps that there may be."""
    return np.empty((state[LIVE] + state[PAST] + 1, 4), np.int64)


@kernel
def find_gaps(tables, layout, state, size, since, until, spare, gaps):
    """Fill `gaps` with those >= size between live blocks held in `since` or later; returns how many there are.

    With `spare` cached blocks of later use are in the way too.
    """
    ceiling, count = tables.ceiling[since], 0
    cursor, below = np.int64(0), NEVER
    for place in range(state[LIVE]):
        block = state[layout.live + place]
        held = _held(layout, state, block, until)
        wanted = _is_wanted(tables, layout, state, block)
        if held < since and not (spare and wanted):
            continue
        offset = state[layout.offset + block]
        if offset >= ceiling:
            break
        stays = _stays_until(tables, layout, state, block, held, wanted)
        if offset - cursor >= size:
            count = _add(gaps, count, cursor, offset, below, stays)
        elif count > 0 and gaps[count - 1, END] == offset:
            gaps[count - 1, ABOVE] = max(gaps[count - 1, ABOVE], stays)
        top = offset + tables.size[state[layout.tensor + block]]
        if top > cursor:
            cursor, below = top, stays
        elif top == cursor:
            below = max(below, stays)
    if ceiling - cursor >= size:
        count = _add(gaps, count, cursor, ceiling, below, NEVER)
    return count


@kernel
def without_block(tables, layout, state, size, block, gaps, count):
    """Take the space of a block in the past out of the gaps; returns how many are left."""
    offset = state[layout.offset + block]
    wanted = _is_wanted(tables, layout, state, block)
    stays = _stays_until(tables, layout, state, block, state[layout.hold + block], wanted)
    return without(gaps, count, size, offset, offset + tables.size[state[layout.tensor + block]], stays)


@kernel
def without(gaps, count, size, low, high, stays):
    """Take addresses low..high-1, which are busy until op `stays`, out of the gaps; returns how many are left."""
    for gap in range(count - 1, -1, -1):
        begin, end = gaps[gap, BEGIN], gaps[gap, END]
        if high < begin or low > end:
            continue
        if high == begin:
            gaps[gap, BELOW] = max(gaps[gap, BELOW], stays)
        elif low == end:
            gaps[gap, ABOVE] = max(gaps[gap, ABOVE], stays)
        else:
            below, above = gaps[gap, BELOW], gaps[gap, ABOVE]
            count -= 1
            gaps[gap] = gaps[count]
            if low - begin >= size:
                count = _add(gaps, count, begin, low, below, stays)
            if end - high >= size:
                count = _add(gaps, count, high, end, stays, above)
    return count


@kernel
def _add(gaps, count, begin, end, below, above):
    gaps[count, BEGIN] = begin
    gaps[count, END] = end
    gaps[count, BELOW] = below
    gaps[count, ABOVE] = above
    return count + 1


@kernel
def _best_end(gaps, count, size):
    """Offset at the end of a gap whose neighbour stays longest, the lowest of equals."""
    best, longest = np.int64(-1), np.int64(-1)
    for gap in range(count):
        for offset, stays in ((gaps[gap, BEGIN], gaps[gap, BELOW]), (gaps[gap, END] - size, gaps[gap, ABOVE])):
            if stays > longest or (stays == longest and offset < best):
                best, longest = offset, stays
    return best


@kernel
def _held(layout, state, block, until):
    """Last op that a block is committed to, NEVER while it is protected."""
    hold = state[layout.hold + block]
    if until > 0 and hold == NEVER:
        tensor = state[layout.tensor + block]
        if state[QUEUE_HEAD] <= state[layout.turn + tensor] < until:
            return max(state[layout.used + tensor], state[OP] - 1)
    return hold


@kernel
def _is_wanted(tables, layout, state, block):
    """Whether the block holds data with uses after the current one."""
    tensor = state[layout.tensor + block]
    latest = state[layout.block + tensor] == block and state[layout.intact + tensor] == 1
    return latest and tables.last_use[tensor] > state[USE]


@kernel
def _stays_until(tables, layout, state, block, held, wanted):
    """The op in which the block's space is likely to become free."""
    if wanted:
        return tables.last_op[state[layout.tensor + block]]
    return min(held, np.int64(len(tables.compute_ps)))


@kernel
def place(tables, layout, state, tensor, start, offset):
    """Add a block of tensor from op `start` on; cached blocks whose space it takes are dead from now on."""
    end, block = offset + tables.size[tensor], state[BLOCKS]
    for index in range(state[LIVE]):
        other = state[layout.live + index]
        if state[layout.offset + other] >= end:
            break
        owner = state[layout.tensor + other]
        if state[layout.offset + other] + tables.size[owner] > offset and state[layout.block + owner] == other:
            state[layout.intact + owner] = 0
    state[layout.offset + block] = offset
    state[layout.tensor + block] = tensor
    state[layout.start + block] = start
    state[layout.arrived + block] = -1
    state[layout.released + block] = -1
    where = layout.live + state[LIVE]
    while where > layout.live and state[layout.offset + state[where - 1]] > offset:
        state[where] = state[where - 1]
        where -= 1
    state[where] = block
    state[layout.block + tensor] = block
    state[layout.intact + tensor] = 1
    state[LIVE] += 1
    state[BLOCKS] = block + 1


@kernel
def retire(tables, layout, state, op):
    """Once `op` is final: blocks held until the op before it are past; those of no more use are live no longer."""
    kept = 0
    for index in range(state[LIVE]):
        block = state[layout.live + index]
        hold, owner = state[layout.hold + block], state[layout.tensor + block]
        if hold == op - 1:
            state[layout.past + state[PAST]] = block
            state[PAST] += 1
        of_use = (
            state[layout.block + owner] == block
            and state[layout.intact + owner] == 1
            and tables.last_use[owner] >= state[USE]
        )
        if hold >= op or of_use:
            state[layout.live + kept] = block
            kept += 1
    state[LIVE] = kept


@kernel
def revive(layout, state, block):
    """Take a cached block that is used again out of the past."""
    where = layout.past + state[PAST] - 1
    following = state[where]
    while following != block:
        where -= 1
        state[where], following = following, state[where]
    state[PAST] -= 1
