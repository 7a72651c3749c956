"""Addresses for blocks whose level and life are decided: by falling size at the lowest gap, with repair.

Blocks are numbered by rank: larger ones first, of equal ones the one that lives first, then the lower tensor. Largest
first at the lowest gap finds addresses for nearly everything that fits by bytes. Where a block finds none, those in
its way are placed again around it; where that fails too, other orders are tried, and at last blocks that failed go
first. The routine and the order of its attempts are our choice, from trials on all programs of the zoo.
"""

from __future__ import annotations

import numpy as np

from memplace_env.kernel import kernel

MOST_PAIRS = 2**24
"""Pairs of blocks alive together of which lists are kept; beyond, each block looks through all others."""
ATTEMPTS = 8
"""Orders that begin with a block that failed, before somebody has to step back."""
MOST_AROUND = 64
"""Blocks in the way beyond which none is placed again: the work grows with their square."""
MOST_LOOKS = 2**21
"""Pairs of neighbours that other orders may look at in all."""
FEW = 24
"""Neighbours up to which looking through them again and again is faster than sorting them."""


@kernel
def neighbours_of(first, last, here):
    """Which blocks are alive at the same time.

    Args:
        first, last: int64[n], ops of each block's life, inclusive.
        here: bool[n], blocks that count.

    Returns:
        ptr int64[n + 1], middle int64[n] and other int32[P]: those alive together with block b are
        `other[ptr[b]:ptr[b + 1]]`, of which those before `middle[b]` have a smaller rank. Where there are more than
        MOST_PAIRS pairs, `other` is empty and ptr[n] is -1.
    """
    n = len(first)
    by_first = _by_first(first, here)
    ptr, middle = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    other = np.empty(0, dtype=np.int32)
    alive = np.empty(n, dtype=np.int64)
    smaller, larger = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    pairs = 0
    for filling in range(2):
        count = 0
        for block in by_first:
            kept = 0
            for index in range(count):
                old = alive[index]
                if last[old] >= first[block]:
                    alive[kept] = old
                    kept += 1
                    low, high = min(old, block), max(old, block)
                    if filling:
                        other[smaller[high]] = low
                        other[larger[low]] = high
                    smaller[high] += 1
                    larger[low] += 1
            alive[kept] = block
            count = kept + 1
            pairs += kept
            if pairs > 2 * MOST_PAIRS:
                ptr[n] = -1
                return ptr, middle, np.empty(0, dtype=np.int32)
        if not filling:
            for block in range(n):
                middle[block] = ptr[block] + smaller[block]
                ptr[block + 1] = middle[block] + larger[block]
                smaller[block], larger[block] = ptr[block], middle[block]
            other = np.empty(ptr[n], dtype=np.int32)
    return ptr, middle, other


@kernel
def _by_first(first, here):
    """The blocks that count, by the first op of their lives."""
    ops = 0
    for block in range(len(first)):
        ops = max(ops, first[block] + 1)
    begin = np.zeros(ops + 1, dtype=np.int64)
    for block in range(len(first)):
        if here[block]:
            begin[first[block] + 1] += 1
    for op in range(ops):
        begin[op + 1] += begin[op]
    ordered = np.empty(begin[ops], dtype=np.int64)
    for block in range(len(first)):
        if here[block]:
            ordered[begin[first[block]]] = block
            begin[first[block]] += 1
    return ordered


@kernel
def pack_level(blocks, near, mine, ceiling, offset, end):
    """Find addresses for the blocks of one level.

    Args:
        blocks: size, first, last: int64[n] each, by rank.
        near: what `neighbours_of` returned for at least the blocks of the level.
        mine: int64[m], the blocks of the level, rising.
        ceiling: int64[n], bytes below which each block must end.
        offset: int64[n], filled in for `mine`.
        end: int64[n], filled: where each block ends; -1 if it found no place, or is of another level.

    Returns:
        Bytes of the blocks that found no place.
    """
    least = _place(blocks, near, mine, True, ceiling, np.int64(2**62), offset, end)
    if least > 0:
        least = _try_other_orders(blocks, near, mine, ceiling, least, offset, end)
    return least


@kernel
def _try_other_orders(blocks, near, mine, ceiling, least, offset, end):
    """By area, life and start, then those first that failed; the best is kept in `offset` and `end`."""
    order, best, trial, trial_end = mine.copy(), mine.copy(), np.empty_like(offset), end.copy()
    ptr = near[0]
    for attempt in range(3 + ATTEMPTS):
        if ptr[len(offset)] < 0 or (attempt + 1) * ptr[len(offset)] > MOST_LOOKS:
            break
        if attempt < 3:
            _sort(order, blocks, attempt)
        else:
            failed = 0
            while trial_end[order[failed]] >= 0:
                failed += 1
            block = order[failed]
            for index in range(failed, 0, -1):
                order[index] = order[index - 1]
            order[0] = block
        lost = _place(blocks, near, order, False, ceiling, least, trial, trial_end)
        if lost < least:
            least = lost
            for index, block in enumerate(order):
                best[index], offset[block], end[block] = block, trial[block], trial_end[block]
        if least == 0:
            break
        if attempt == 2:
            for index, block in enumerate(best):
                order[index], trial_end[block] = block, end[block]
    return least


@kernel
def _sort(items, blocks, by):
    """Sort by area (0), life (1), both falling, start (2) or rank (3); what is equal there by rank."""
    if len(items) > MOST_AROUND:
        items.sort()
        key = np.empty(len(items), dtype=np.int64)
        for place, item in enumerate(items):
            key[place] = _key(blocks, item, by)
        items[:] = items[np.argsort(key, kind="mergesort")]
        return
    for end in range(1, len(items)):
        item, place = items[end], end
        key_of_item = _key(blocks, item, by)
        while place > 0:
            before = items[place - 1]
            other = _key(blocks, before, by)
            if other < key_of_item or (other == key_of_item and before < item):
                break
            items[place] = before
            place -= 1
        items[place] = item


@kernel(forceinline=True)
def _key(blocks, item, by):
    """What `_sort` sorts a block by."""
    size, first, last = blocks
    life = last[item] - first[item] + 1
    return -life * size[item] if by == 0 else (-life if by == 1 else (first[item] if by == 2 else 0))


@kernel
def _place(blocks, near, order, by_rank, ceiling, enough, offset, end):
    """Place blocks in an order, each at the lowest gap; bytes that found no place, or `enough` as soon as it is that.

    `by_rank` says that blocks come by rank, so that only those of smaller rank can be in the way.
    """
    size = blocks[0]
    ptr, middle, other = near
    lost, listed = np.int64(0), ptr[len(size)] >= 0
    end[:] = -1
    for block in order:
        begin, mine, moved = np.int64(0), size[block], True
        since, until = ptr[block], middle[block] if by_rank else ptr[block + 1]
        if listed and until - since <= FEW:
            while moved:
                moved = False
                for index in range(since, until):
                    neighbour = other[index]
                    if end[neighbour] > begin and offset[neighbour] < begin + mine:
                        begin, moved = end[neighbour], True
        else:
            begin = _lowest_gap(blocks, near, block, offset, end)
        if begin + mine <= ceiling[block]:
            offset[block] = begin
            end[block] = begin + mine
        elif not _repair(blocks, near, ceiling, block, offset, end):
            lost += mine
            if lost >= enough:
                return enough
    return lost


@kernel
def _lowest_gap(blocks, near, block, offset, end):
    """Lowest address at which a block meets no placed one that is alive together with it."""
    begin = np.int64(0)
    around = _placed_around(blocks, near, block, end)
    step = len(around) // 2
    while step > 0:  # Shell's sort, by address
        for place in range(step, len(around)):
            neighbour = around[place]
            while place >= step and offset[around[place - step]] > offset[neighbour]:
                around[place] = around[place - step]
                place -= step
            around[place] = neighbour
        step //= 2
    for neighbour in around:
        if offset[neighbour] >= begin + blocks[0][block]:
            break
        begin = max(begin, end[neighbour])
    return begin


@kernel
def _placed_around(blocks, near, block, end):
    """int64[m], the placed blocks that are alive together with this one."""
    _, first, last = blocks
    ptr, _, other = near
    count = 0
    if ptr[len(first)] >= 0:
        found = np.empty(ptr[block + 1] - ptr[block] + 1, dtype=np.int64)
        for index in range(ptr[block], ptr[block + 1]):
            found[count] = other[index]
            count += end[other[index]] >= 0
    else:
        found = np.empty(len(first) + 1, dtype=np.int64)
        for neighbour in range(len(first)):
            found[count] = neighbour
            count += end[neighbour] >= 0 and first[neighbour] <= last[block] and last[neighbour] >= first[block]
    return found[:count]


@kernel
def _repair(blocks, near, ceiling, block, offset, end):
    """Place a block at 0 and those in its way again around it, by size, else by life; whether that went well."""
    size = blocks[0]
    around = _placed_around(blocks, near, block, end)
    if len(around) > MOST_AROUND:
        return False
    before = np.empty(len(around), dtype=np.int64)
    for attempt in range(2):
        _sort(around, blocks, 1 if attempt else 3)
        for index, neighbour in enumerate(around):
            before[index] = offset[neighbour]
            end[neighbour] = -1
        offset[block], end[block] = 0, size[block]
        fits = size[block] <= ceiling[block]
        for neighbour in around:
            if fits:
                offset[neighbour] = _lowest_gap(blocks, near, neighbour, offset, end)
                end[neighbour] = offset[neighbour] + size[neighbour]
                fits = end[neighbour] <= ceiling[neighbour]
        if fits:
            return True
        for index, neighbour in enumerate(around):
            offset[neighbour], end[neighbour] = before[index], before[index] + size[neighbour]
        end[block] = -1
    return False
