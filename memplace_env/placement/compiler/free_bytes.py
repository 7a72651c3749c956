"""Free bytes of a memory level in every op, as a segment tree: reading and taking cost log2 of the number of ops.

Leaf `half + 1 + t` stands for op t, node n for its children 2n and 2n + 1. `least` int64[2 half] holds the fewest free
bytes of the ops below a node, `taken` int64[2 half] what all of them lost that the nodes below do not show.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel

_PLENTY = np.int64(2**62)
"""Free bytes of leaves without an op: more than any level has."""


@kernel
def new_profile(free_bytes):
    """Return the tree (`least`, `taken`) of int64[T] free bytes."""
    half = 1
    # The leaves before op 0 and behind the last op are never taken from: the walks below start at them.
    while half < len(free_bytes) + 2:
        half *= 2
    least, taken = np.full(2 * half, _PLENTY, dtype=np.int64), np.zeros(2 * half, dtype=np.int64)
    for op in range(len(free_bytes)):
        least[half + 1 + op] = free_bytes[op]
    # Children have larger numbers, so that both are complete when their parent is computed.
    for node in range(half - 1, 0, -1):
        least[node] = min(least[2 * node], least[2 * node + 1])
    return least, taken


@kernel(borrows=True)
def fewest_free(profile, first, last):
    """Return the fewest bytes that are free in one of the ops first..last."""
    least, taken = profile
    # The leaves just outside the range.
    left, right = len(least) // 2 + first, len(least) // 2 + last + 2
    of_left, of_right = _PLENTY, _PLENTY
    # Both walk up until they are siblings. A right sibling of `left` and a left sibling of `right` lie inside the range
    # whole; `of_left` and `of_right` are the least of these below the nodes `left` and `right`.
    while left ^ right != 1:
        if left & 1 == 0:
            of_left = min(of_left, least[left + 1])
        if right & 1 == 1:
            of_right = min(of_right, least[right - 1])
        left, right = left >> 1, right >> 1
        # What a node lost does not show in its children.
        of_left -= taken[left]
        of_right -= taken[right]
    fewest, node = min(of_left, of_right), left >> 1
    # From the common parent up to the root.
    while node > 0:
        fewest -= taken[node]
        node >>= 1
    return fewest


@kernel(borrows=True)
def take(profile, first, last, size):
    """Take `size` bytes in each of the ops first..last."""
    least, taken = profile
    left, right = len(least) // 2 + first, len(least) // 2 + last + 2
    # The same walk as in `fewest_free`: nodes inside the range lose the bytes whole, those above are computed anew.
    while left ^ right != 1:
        if left & 1 == 0:
            least[left + 1] -= size
            taken[left + 1] += size
        if right & 1 == 1:
            least[right - 1] -= size
            taken[right - 1] += size
        left, right = left >> 1, right >> 1
        least[left] = min(least[2 * left], least[2 * left + 1]) - taken[left]
        least[right] = min(least[2 * right], least[2 * right + 1]) - taken[right]
    node = left >> 1
    # The ancestors of both ends.
    while node > 0:
        least[node] = min(least[2 * node], least[2 * node + 1]) - taken[node]
        node >>= 1


@kernel
def fill(free_bytes, order, first, last, size, pairs):
    """Return bool[K], the tensors that find room, one after the other, where bytes alone count.

    Where an operand and a result that may take its place are both there, only one of them counts in the op. Each has
    one partner at most.

    Args:
        free_bytes: int64[T].
        order: int64[n], tensors.
        first, last: int64[K], ops in which each is held, inclusive.
        size: int64[K], bytes, at least 1.
        pairs: handovers int64[H, 3] of the program, and those of each tensor, see `in_place.pairs_of_tensors`.
    """
    profile, placed = new_profile(free_bytes), np.zeros(len(size), dtype=np.bool_)
    handovers, ptr, row = pairs
    has_given, has_taken = np.zeros(len(size), dtype=np.bool_), np.zeros(len(size), dtype=np.bool_)
    begin = 0
    # Tensors of the same bytes and life, as slices are, follow each other: of order[begin:end] as many find room as
    # their bytes fit. Tensors without room are passed over; smaller ones behind them may still find some.
    while begin < len(order):
        tensor, end = order[begin], begin + 1
        since, until, own = first[tensor], last[tensor], size[tensor]
        giver, taker = np.int64(-1), np.int64(-1)
        for index in range(ptr[tensor], ptr[tensor + 1]):
            operand, result = handovers[row[index], 0], handovers[row[index], 1]
            if result == tensor and giver < 0 and placed[operand] and not has_given[operand]:
                giver, since = operand, since + 1
            if operand == tensor and taker < 0 and placed[result] and not has_taken[result]:
                taker, until = result, until - 1
        alone = ptr[tensor] == ptr[tensor + 1]
        while alone and end < len(order) and _is_like(order[end], (since, until, own), first, last, size, ptr):
            end += 1
        count = min(end - begin, max(np.int64(0), fewest_free(profile, since, until)) // own)
        if count > 0:
            take(profile, since, until, count * own)
            placed[order[begin : begin + count]] = True
            if giver >= 0:
                has_given[giver] = has_taken[tensor] = True
            if taker >= 0:
                has_given[tensor] = has_taken[taker] = True
        begin = end
    return placed


@kernel(forceinline=True, borrows=True)
def _is_like(tensor, life_and_size, first, last, size, ptr):
    """Return whether a tensor without pairs has this first and last op, and these bytes."""
    return (first[tensor], last[tensor], size[tensor]) == life_and_size and ptr[tensor] == ptr[tensor + 1]
