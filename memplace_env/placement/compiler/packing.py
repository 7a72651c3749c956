"""Addresses for blocks whose level and life are decided: by falling size at the lowest gap, with repair.

Blocks are numbered by rank: larger ones first, of equal ones the one that lives first, then the lower tensor. Largest
first at the lowest gap finds addresses for nearly everything that fits by bytes. Where a block finds none, those in
its way are placed again around it; where that fails too, other orders are tried, and at last blocks that failed go
first. The routine and the order of its attempts are our choice, from trials on all programs of the zoo.

Where more than MOST_PAIRS pairs of blocks are alive together, largest first at the lowest gap is all: gaps are looked
up in ranges of ops (`busy_addresses`), nothing is placed again, and no other order is tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.block_neighbours import placed_around
from memplace_env.placement.compiler.busy_addresses import lowest_gap, new_busy, occupy
from memplace_env.program.program import Ints

ATTEMPTS = 8
"""Orders that begin with a block that failed, before a block has to step down a level."""
MOST_AROUND = 64
"""Blocks in the way beyond which none is placed again: the work grows with their square."""
MOST_LOOKS = 2**21
"""Pairs of neighbours that other orders may look at in all."""
FEW = 24
"""Neighbours up to which looking through them again and again is faster than sorting them."""


class PackingSpace(NamedTuple):
    """Scratch of `pack_level` for n blocks, made once: making it takes longer than packing a few blocks.

    Attributes:
        top, before: int64[n], see `_place` and `_repair`.
        rows, around: uint32[n], blocks by address, and blocks that are placed again.
    """

    top: Ints
    before: Ints
    rows: NDArray[np.uint32]
    around: NDArray[np.uint32]


@kernel
def packing_space(count):
    """Return the scratch of `pack_level` for so many blocks."""
    top, before = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    return PackingSpace(top, before, np.empty(count, dtype=np.uint32), np.empty(count, dtype=np.uint32))


@kernel(forceinline=True, borrows=True)
def pack_level(blocks, near, members, ceiling, offset, end, space):
    """Find addresses for the blocks of one level; return the bytes of those that found none.

    Args:
        blocks: size, first, last: int64[n] each, by rank; pin: int64[p], offsets that the first p blocks must have.
        near: what `neighbours_of` returned for at least the blocks of the level, or `no_lists`.
        members: uint32[m], the blocks of the level, rising.
        ceiling: int64[n], bytes below which each block must end.
        offset: int64[n], filled in for `members`.
        end: int64[n], filled: where each block ends; -1 if it found no address, or is of another level.
        space: PackingSpace.
    """
    if near[0][len(offset)] < 0:
        return _place_crowd(blocks, members, ceiling, offset, end)
    unplaced = _place(blocks, near, members, True, ceiling, np.int64(2**62), offset, end, space)
    if unplaced > 0:
        unplaced = _try_other_orders(blocks, near, members, ceiling, unplaced, offset, end, space)
    return unplaced


@kernel
def _place_crowd(blocks, members, ceiling, offset, end):
    """Place blocks by rank, each at the lowest gap, whatever it means for others; return the bytes unplaced."""
    size, first, last, pin = blocks
    ops, lost = np.int64(0), np.int64(0)
    for block in members:
        ops = max(ops, last[block] + 1)
    busy = new_busy(ops)
    end[:] = -1
    # The blocks placed so far are busy in the ops of their lives, and each lies below its ceiling.
    for number, block in enumerate(members):
        if block < len(pin):
            begin = _pinned_offset(blocks, members, number, offset, end)
        else:
            begin = lowest_gap(busy, first[block], last[block], size[block], ceiling[block])
        if begin + size[block] <= ceiling[block]:
            offset[block], end[block] = begin, begin + size[block]
            busy = occupy(busy, first[block], last[block], begin, end[block])
        else:
            lost += size[block]
    return lost


@kernel(borrows=True)
def _pinned_offset(blocks, order, number, offset, end):
    """Return the offset of the pinned block order[number], or one above any ceiling if a block before it is there."""
    size, first, last, pin = blocks
    block = order[number]
    begin = pin[block]
    # All before it are pinned, too. None of those passed so far meets it.
    for earlier in order[:number]:
        together = end[earlier] >= 0 and first[earlier] <= last[block] and last[earlier] >= first[block]
        if together and offset[earlier] < begin + size[block] and end[earlier] > begin:
            return np.int64(2**61)
    return begin


@kernel
def _try_other_orders(blocks, near, members, ceiling, least, offset, end, space):
    """Place blocks by area, by life and by start, then those first that failed; return the fewest bytes unplaced.

    Pinned blocks stay in front.

    `least` are the bytes unplaced in `offset` and `end`, which always hold the best layout so far.
    """
    order, best, trial, trial_end = members.copy(), members.copy(), np.empty_like(offset), end.copy()
    ptr, fixed = near[0], np.searchsorted(members, len(blocks[3]))
    # Attempts 0..2 sort by area, life and start; each later one moves a failed block of the last attempt to the front.
    for attempt in range(3 + ATTEMPTS):
        # ptr[n] counts each pair twice, and an attempt looks at each about once.
        if (attempt + 1) * ptr[len(offset)] > MOST_LOOKS:
            break
        if attempt < 3:
            for index, block in enumerate(members):  # numba compiles a copy of an array with all of its texts of errors
                order[index] = block
            _sort(order[fixed:], blocks, attempt)
        else:
            failed = fixed
            # The last attempt left bytes over, so some block in `order` has no end and the search stops in time.
            while trial_end[order[failed]] >= 0:
                failed += 1
            # Rotate order[fixed:failed + 1] by one: the failed block goes first, the others keep their order.
            block = order[failed]
            for index in range(failed, fixed, -1):
                order[index] = order[index - 1]
            order[fixed] = block
        lost = _place(blocks, near, order, False, ceiling, least, trial, trial_end, space)
        if lost < least:
            least = lost
            for index, block in enumerate(order):
                best[index], offset[block], end[block] = block, trial[block], trial_end[block]
        if least == 0:
            break
        if attempt == 2:  # the later attempts start from the best order so far, and from what failed in it
            for index, block in enumerate(best):
                order[index], trial_end[block] = block, end[block]
    return least


@kernel
def _sort(items, blocks, by):
    """Sort by area (0), life (1), both falling, start (2) or rank (3); what is equal there by rank.

    More than MOST_AROUND come by rank.
    """
    if len(items) > MOST_AROUND:
        begin, key, count = np.empty(len(items) + 1, dtype=np.int64), np.empty(len(items), dtype=np.int64), 0
        # Blocks that are alike follow each other and stay together: only the first of each such row is sorted.
        for index, item in enumerate(items):
            if index == 0 or not _alike(blocks, items[index - 1], item):
                begin[count], key[count] = index, _key(blocks, item, by)
                count += 1
        begin[count] = len(items)
        by_rank, filled = items.copy(), 0
        for row in np.argsort(key[:count], kind="mergesort"):  # stable
            for index in range(begin[row], begin[row + 1]):
                items[filled] = by_rank[index]
                filled += 1
        return
    # Insertion sort, as short lists need no memory then: items[:end] is sorted before each pass.
    for end in range(1, len(items)):
        item, index = items[end], end
        key_of_item = _key(blocks, item, by)
        # All of items[index + 1:end + 1] come after the item and have moved up by one.
        while index > 0:
            before = items[index - 1]
            other = _key(blocks, before, by)
            if other < key_of_item or (other == key_of_item and before < item):
                break
            items[index] = before
            index -= 1
        items[index] = item


@kernel(forceinline=True, borrows=True)
def _key(blocks, item, by):
    """Return the number that `_sort` sorts a block by, the smallest first."""
    size, first, last, _ = blocks
    life = last[item] - first[item] + 1
    return -life * size[item] if by == 0 else (-life if by == 1 else (first[item] if by == 2 else 0))


@kernel(borrows=True)
def _place(blocks, near, order, by_rank, ceiling, enough, offset, end, space):
    """Place blocks in an order, each at the lowest gap; return the bytes unplaced, or `enough` as soon as it is that.

    With `by_rank` blocks come by rank, so that only those of smaller rank can be in the way.
    """
    size, pin, number = blocks[0], blocks[3], 0
    ptr, middle, other = near
    lost, many = np.int64(0), False
    end[:] = -1
    # Blocks that are alike, as slices of a tensor are, mostly lie right behind each other. `top` is where a row of them
    # ends, for its first block `head`; -1 for all others. Blocks among few others are rows of their own: `top` is
    # `end` before the first block among many.
    top, head = space.top, -1
    # Of the last block that looked for a gap among many: itself, the count of rows around it, by address, in
    # `space.rows`, and the first of them that it has not passed.
    last_one, count, passed = -1, 0, 0
    refused = -1  # the last block, if it found no address
    # The blocks placed so far have an end; no two of them meet, and each lies below its ceiling.
    for block in order:
        begin, need, moved = np.int64(0), size[block], True
        if block < len(pin):  # `number` blocks come before it
            begin = _pinned_offset(blocks, order, number, offset, end)
            number += 1
            if begin + need <= ceiling[block]:
                offset[block], end[block] = begin, begin + need
            else:
                lost += need
            if lost >= enough:
                return enough
            continue
        since, until = ptr[block], middle[block] if by_rank else ptr[block + 1]
        # The rest of what is alike finds nothing either, as nothing has changed.
        if refused >= 0 and _alike(blocks, refused, block) and ceiling[refused] == ceiling[block]:
            lost += need
            if lost >= enough:
                return enough
            continue
        if until - since <= FEW:
            # `begin` rises over every neighbour that it meets until it meets none. No gap below `begin` is large
            # enough, as any start there would meet one of the neighbours passed. Unplaced ones have the end -1.
            last_one, head = -1, block  # this block is none of those `around`
            while moved:
                moved = False
                for index in range(since, until):
                    neighbour = other[index]
                    if end[neighbour] > begin and offset[neighbour] < begin + need:
                        begin, moved = end[neighbour], True
        else:
            if not many:
                many = True
                for each in range(len(end)):  # numba makes room for a copy in `top[:] = end`
                    top[each] = end[each]
            # The next one that is alike finds no gap below the last one either, and goes on behind it.
            if last_one >= 0 and _alike(blocks, last_one, block):
                begin = end[last_one]
            else:
                count, passed, head = _by_address(near, block, offset, top, space.rows), 0, -1
            begin, passed = _next_gap(space.rows, count, passed, begin, need, offset, top)
            if head < 0 or begin > end[last_one]:
                head = block
            last_one = block
        if begin + need <= ceiling[block]:
            offset[block] = begin
            end[block] = begin + need
            if many:
                top[head] = end[block]
            refused = -1
        else:
            last_one = -1  # addresses change
            repaired = _repair(blocks, near, ceiling, block, offset, end, top if many else end, space)
            refused = -1 if repaired else block
            if repaired:
                continue
            lost += need
            if lost >= enough:  # no better than the best layout so far: the rest is of no use
                return enough
    return lost


@kernel(forceinline=True, borrows=True)
def _alike(blocks, one, other):
    """Return whether two blocks have the same size and life."""
    size, first, last, _ = blocks
    return size[one] == size[other] and first[one] == first[other] and last[one] == last[other]


@kernel(borrows=True)
def _next_gap(rows, count, passed, begin, need, offset, top):
    """Return the lowest gap from `begin` on for `need` bytes, and how many of `rows[:count]` it is behind.

    `rows[:passed]` end below `begin`.
    """
    # `begin` is the highest end of the rows passed: the gap up to the next one is the next candidate.
    while passed < count and offset[rows[passed]] < begin + need:
        begin = max(begin, top[rows[passed]])
        passed += 1
    return begin, passed


@kernel(borrows=True)
def _by_address(near, block, offset, top, rows):
    """Write to `rows` the first blocks of the rows alive together with this block, by address; return how many."""
    count = placed_around(near, block, top, rows)
    step = count // 2
    # Shell's sort, by address: after each pass, rows that are `step` apart are in order. It needs no further memory.
    while step > 0:
        for index in range(step, count):
            neighbour = rows[index]
            while index >= step and offset[rows[index - step]] > offset[neighbour]:
                rows[index] = rows[index - step]
                index -= step
            rows[index] = neighbour
        step //= 2
    return count


@kernel(borrows=True)
def _repair(blocks, near, ceiling, block, offset, end, top, space):
    """Place a block at 0 and those around it anew, by size, else by life; return whether all found addresses.

    None is pinned, else nothing is tried.
    If not, `offset` and `end` are as before, and the block has no end. Either way rows around it may be single blocks
    afterwards.
    """
    size, before, rows = blocks[0], space.before, space.rows
    many = placed_around(near, block, end, space.around)
    if many > MOST_AROUND:
        return False
    around = space.around[:many]
    for neighbour in around:
        if neighbour < len(blocks[3]):
            return False
    # Attempt 0 goes by rank, that is by falling size, attempt 1 by life. Before each, all around are where they were.
    for attempt in range(2):
        _sort(around, blocks, 1 if attempt else 3)
        for index, neighbour in enumerate(around):
            before[index] = offset[neighbour]
            end[neighbour] = top[neighbour] = -1
        offset[block], end[block] = 0, size[block]
        top[block], fits = end[block], size[block] <= ceiling[block]
        count, passed, last_one = 0, 0, -1
        # Those of `around` that are placed again so far meet nothing; after the first that does not fit none is placed.
        for neighbour in around:
            if fits:
                if last_one >= 0 and _alike(blocks, last_one, neighbour):  # as in `_place`
                    begin = end[last_one]
                else:
                    count, passed = _by_address(near, neighbour, offset, top, rows), 0
                    begin = np.int64(0)
                offset[neighbour], passed = _next_gap(rows, count, passed, begin, size[neighbour], offset, top)
                end[neighbour] = top[neighbour] = offset[neighbour] + size[neighbour]
                fits, last_one = end[neighbour] <= ceiling[neighbour], neighbour
        if fits:
            return True
        for index, neighbour in enumerate(around):
            offset[neighbour], end[neighbour] = before[index], before[index] + size[neighbour]
            top[neighbour] = end[neighbour]
        end[block] = top[block] = -1
    return False
