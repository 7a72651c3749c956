"""Lists of blocks that are alive at the same time, for the packing."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel

MOST_PAIRS = 2**24
"""Pairs of blocks alive together of which lists are kept (128 MiB); beyond, blocks are a crowd (`packing`)."""


@kernel
def neighbours_of(first, last, here):
    """Return lists of the blocks that are alive at the same time.

    Args:
        first, last: int64[n], ops of each block's life, inclusive.
        here: bool[n], blocks that count.

    Returns:
        ptr int64[n + 1], middle int64[n] and other uint32[P]: those alive together with block b are
        `other[ptr[b]:ptr[b + 1]]`, of which those before `middle[b]` have a smaller rank. Where there are more than
        MOST_PAIRS pairs, they are what `no_lists` returns.
    """
    n = len(first)
    by_first = _by_first(first, here)
    ptr, middle = np.zeros(n + 1, dtype=np.int64), np.zeros(n, dtype=np.int64)
    other = np.empty(0, dtype=np.uint32)
    alive = np.empty(n, dtype=np.int64)
    smaller, larger = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    pairs = 0
    # The first pass counts each block's neighbours, the second writes them. Both sweep over time:
    # `alive[:count]` are the blocks that have begun, of which those that ended meanwhile are dropped when looked at.
    for filling in range(2):
        count = 0
        for block in by_first:
            overlapping = 0
            # alive[:kept] are those of alive[:index] that overlap with the block: each such pair is met exactly once.
            for index in range(count):
                old = alive[index]
                if last[old] >= first[block]:
                    alive[overlapping] = old
                    overlapping += 1
                    low, high = min(old, block), max(old, block)
                    # While counting, `smaller` and `larger` are counts; while filling, the next free index in `other`.
                    if filling:
                        other[smaller[high]] = low
                        other[larger[low]] = high
                    smaller[high] += 1
                    larger[low] += 1
            alive[overlapping] = block
            count = overlapping + 1
            pairs += overlapping  # both passes add up, so twice the number of pairs in the end
            if pairs > 2 * MOST_PAIRS:
                return no_lists(n)
        if not filling:
            # A running sum of the counts; then both counts become the index at which a block's lists begin.
            for block in range(n):
                middle[block] = ptr[block] + smaller[block]
                ptr[block + 1] = middle[block] + larger[block]
                smaller[block], larger[block] = ptr[block], middle[block]
            other = np.empty(ptr[n], dtype=np.uint32)
    return ptr, middle, other


@kernel
def no_lists(count):
    """Return what stands for the lists of so many blocks where none are kept: the last of `ptr` is -1."""
    ptr, middle = np.zeros(count + 1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    ptr[count] = -1
    return ptr, middle, np.empty(0, dtype=np.uint32)


@kernel
def _by_first(first, here):
    """Return the blocks that count, by the first op of their lives; a counting sort, stable by rank."""
    ops = 0
    for block in range(len(first)):
        ops = max(ops, first[block] + 1)
    # begin[op + 1] counts the blocks that begin at op; summed up, begin[op] is where those of op start in `ordered`.
    begin = np.zeros(ops + 1, dtype=np.int64)
    for block in range(len(first)):
        if here[block]:
            begin[first[block] + 1] += 1
    for op in range(ops):
        begin[op + 1] += begin[op]
    ordered = np.empty(begin[ops], dtype=np.int64)
    # begin[op] is now the next free index for a block that begins at op.
    for block in range(len(first)):
        if here[block]:
            ordered[begin[first[block]]] = block
            begin[first[block]] += 1
    return ordered


@kernel(borrows=True)
def placed_around(near, block, end, around):
    """Write to `around` uint32[n] the blocks with an end that are alive together with this one; return how many."""
    ptr, _, other = near
    count = 0
    # Without a branch: each neighbour is written behind the last one that counted, and `count` grows if it counts too.
    for index in range(ptr[block], ptr[block + 1]):
        around[count] = other[index]
        count += end[other[index]] >= 0
    return count
