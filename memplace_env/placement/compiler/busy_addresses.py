"""Addresses that are busy in ranges of ops: a segment tree, so that a gap is found without passing all blocks alive.

Leaf `half + t` stands for op t, node n for its children 2n and 2n + 1. Set n holds what is busy in some op below node
n, set `2 half + n` the blocks that node n stands for as a whole, of which the sets below it do not know. Blocks that
touch are one interval of a set, so that a stack of blocks is passed at once.

`busy` is (sets, low, high, looked). The sets are sorted lists in two arrays that they share: of set s, interval i is
low[sets[0, s] + i]..high[sets[0, s] + i] - 1 for i < sets[1, s]. Once `sets[2, s]` intervals are there, the set moves
behind all others; there is no set 0, so sets[0, 0] is where the last one ends. `looked` is scratch.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel

FIRST_ROOM = 4
"""Intervals for which a set gets space at first; whenever that is full it doubles. Our choice."""


@kernel
def new_busy(ops):
    """Return `busy` for so many ops, in which no address is busy."""
    half, heights = 1, 1
    while half < ops:
        half, heights = 2 * half, heights + 1
    low, high = np.empty(4 * half, dtype=np.int64), np.empty(4 * half, dtype=np.int64)
    return np.zeros((3, 4 * half), dtype=np.int64), low, high, np.empty(4 * heights + 1, dtype=np.int64)


@kernel
def lowest_gap(busy, first, last, size, ceiling):
    """Return the lowest address from which `size` bytes are free in all of the ops first..last.

    If none ends below the ceiling, the returned address is above `ceiling - size`.
    """
    sets, low, high, looked = busy
    half, count = sets.shape[1] // 4, 0
    # Nodes that make up first..last, whose own sets matter: `left` and `right` - 1 are the outermost of each height.
    left, right = half + first, half + last + 1
    while left < right:
        if left & 1:
            count = _noted(sets, looked, count, left)
        if right & 1:
            count = _noted(sets, looked, count, right - 1)
        left, right = (left + 1) >> 1, right >> 1
    # Nodes above the first and the last op; those above any other op of the range are among them, or parts of it.
    left, right = half + first, half + last
    while left > 0:
        count = _noted(sets, looked, count, 2 * half + left)
        if right != left:
            count = _noted(sets, looked, count, 2 * half + right)
        left, right = left >> 1, right >> 1
    # `address` rises over whatever meets it, as no gap below it is large enough, until none of the sets moves it.
    address, quiet, turn = np.int64(0), 0, 0
    while quiet < count and address + size <= ceiling:
        index = looked[turn]
        interval, end = _first_ending_after(busy, index, address), sets[0, index] + sets[1, index]
        quiet += 1
        while interval < end and low[interval] < address + size:
            address, quiet = high[interval], 1
            interval += 1
        turn = turn + 1 if turn + 1 < count else 0
    return address


@kernel(forceinline=True)
def _noted(sets, looked, count, index):
    """Note a set behind `looked[:count]` if it has intervals; return how many are noted."""
    looked[count] = index
    return count + (sets[1, index] > 0)


@kernel(forceinline=True)
def _first_ending_after(busy, index, address):
    """Return the position of the first interval of a set that ends after an address; behind the last if none does."""
    sets, _, high, _ = busy
    since, until = sets[0, index], sets[0, index] + sets[1, index]
    while since < until:
        middle = (since + until) // 2
        if high[middle] > address:
            until = middle
        else:
            since = middle + 1
    return since


@kernel
def occupy(busy, first, last, begin, end):
    """Make addresses begin..end-1 busy in the ops first..last, all of which are free; return `busy`, to be used on."""
    half = busy[0].shape[1] // 4
    # The same nodes as in `lowest_gap`, and then those above them, of which only some ops are concerned.
    left, right = half + first, half + last + 1
    while left < right:
        if left & 1:
            busy = _added(_added(busy, left, begin, end), 2 * half + left, begin, end)
        if right & 1:
            busy = _added(_added(busy, right - 1, begin, end), 2 * half + right - 1, begin, end)
        left, right = (left + 1) >> 1, right >> 1
    left, right = (half + first) >> 1, (half + last) >> 1
    while left > 0:
        busy = _added(busy, left, begin, end)
        if right != left:
            busy = _added(busy, right, begin, end)
        left, right = left >> 1, right >> 1
    return busy


@kernel
def _added(busy, index, begin, end):
    """Return `busy` with begin..end-1 in a set, as one interval with those that it meets or touches."""
    # Positions since..until-1 are those intervals; it takes their place.
    since = _first_ending_after(busy, index, begin - 1)
    sets, low, high, looked = busy
    until, behind = since, sets[0, index] + sets[1, index]
    while until < behind and low[until] <= end:
        begin, end = min(begin, low[until]), max(end, high[until])
        until += 1
    if until > since:
        gone = until - since - 1
        for position in range(until, behind if gone > 0 else until):
            low[position - gone], high[position - gone] = low[position], high[position]
        sets[1, index] -= gone
    else:
        if sets[1, index] == sets[2, index]:
            since -= sets[0, index]
            low, high = _moved(sets, low, high, index)
            since += sets[0, index]
        for position in range(sets[0, index] + sets[1, index], since, -1):
            low[position], high[position] = low[position - 1], high[position - 1]
        sets[1, index] += 1
    low[since], high[since] = begin, end
    return sets, low, high, looked


@kernel
def _moved(sets, low, high, index):
    """Move a set behind all others and give it room; return `low` and `high`, which are longer if they were full."""
    begin, count, used = sets[0, index], sets[1, index], sets[0, 0]
    room = max(np.int64(FIRST_ROOM), 2 * count)
    if used + room > len(low):
        longer = np.empty((2, 2 * len(low) + room), dtype=np.int64)
        for position in range(len(low)):
            longer[0, position], longer[1, position] = low[position], high[position]
        low, high = longer[0], longer[1]
    for interval in range(count):
        low[used + interval], high[used + interval] = low[begin + interval], high[begin + interval]
    sets[0, index], sets[2, index], sets[0, 0] = used, room, used + room
    return low, high
