"""Compiled rules for addresses: n blocks with fixed lifetimes in one memory ("dynamic storage allocation").

Two blocks are neighbours if they are alive in the same op. A block sticks out if it ends above the byte at which it
must end. Pinned blocks have their offset; rules place them first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.placing_kernels import ENDLESS, narrower_gap

FOUND, NONE_EXISTS, GAVE_UP = 1, 0, -1
"""Outcomes of a search: addresses; a proof that there are none; neither."""


class PackingProblem(NamedTuple):
    """Blocks to be packed.

    Attributes:
        size: int64[n], bytes.
        first, last: int64[n], sections of the life, inclusive.
        high: int64[n], the greatest offset.
        align: int64[n], offsets are its multiples.
        pins: int64[m], blocks with a fixed offset, by rising offset.
        pin: int64[n], that offset, or -1.
        begin: int64[S + 1], the first block that begins in each section.
        ptr, other: lists of neighbours, see `neighbours_of`.
        top: int64[S], the most that any block alive in the section may reach.
    """

    size: np.ndarray
    first: np.ndarray
    last: np.ndarray
    high: np.ndarray
    align: np.ndarray
    pins: np.ndarray
    pin: np.ndarray
    begin: np.ndarray
    ptr: np.ndarray
    other: np.ndarray
    top: np.ndarray


@kernel
def place_in_order(problem, order, best_fit, offset):
    """Place blocks one by one into gaps between their neighbours that were placed before.

    Args:
        problem: a `PackingProblem`.
        order: int64[n], blocks in the order in which they are placed, pinned ones first.
        best_fit: take the smallest gap that fits rather than the lowest.
        offset: int64[n], filled.

    Returns:
        The most bytes that any block sticks out by; at most 0 if none does.
    """
    n = len(order)
    stack = np.empty(n, dtype=np.int64)
    offset[:] = -1
    over = -ENDLESS
    for rank in range(n):
        # Invariant: order[:rank] have their final offsets, and over is the most that they stick out by.
        block = order[rank]
        size, align = problem.size[block], problem.align[block]
        if problem.pin[block] >= 0:
            offset[block] = problem.pin[block]
            over = max(over, offset[block] - problem.high[block])
            continue
        count = 0
        # Insertion sort: stack[:count] are the neighbours seen so far, by rising offset.
        low, high = problem.ptr[block], problem.ptr[block + 1]
        listed = problem.ptr[n] >= 0 and high - low < rank
        if not listed:
            low, high = 0, rank
        for index in range(low, high):
            other = np.int64(problem.other[index]) if listed else order[index]
            if listed:
                if offset[other] < 0:
                    continue
            elif problem.first[other] > problem.last[block] or problem.last[other] < problem.first[block]:
                continue
            position = count
            while position > 0 and offset[stack[position - 1]] > offset[other]:
                stack[position] = stack[position - 1]
                position -= 1
            stack[position] = other
            count += 1
        # cursor is the end of the highest neighbour passed so far. Neighbours may overlap in address, as they need not
        # share an op with each other: the gap below the next one may be negative, and the cursor takes the maximum.
        cursor, chosen, chosen_gap = np.int64(0), np.int64(-1), ENDLESS
        for position in range(count):
            # Gaps further up are too high for the block.
            if chosen >= 0 and cursor > problem.high[block]:
                break
            neighbour = stack[position]
            at = cursor + -cursor % align if align > 1 else cursor
            chosen, chosen_gap = narrower_gap(chosen, chosen_gap, at, offset[neighbour] - at, size)
            if chosen >= 0 and not best_fit:
                break
            cursor = max(cursor, offset[neighbour] + problem.size[neighbour])
        # No gap between neighbours fits: the block goes on top of them all.
        offset[block] = cursor + -cursor % align if chosen < 0 else chosen
        over = max(over, offset[block] - problem.high[block])
    return over


@kernel
def climb(problem, order, rounds, seed, offset):
    """Randomised hill climb over the placing order, after the allocator of Arm's Vela compiler.

    Blocks are placed at the lowest gap. Each round moves a block that sticks out, or one of its neighbours, to a random
    rank, and keeps the new order unless a block sticks out further.

    Args:
        problem: a `PackingProblem` without pins.
        order: int64[n], the order to start from; the best one on return.
        rounds: number of orders to try.
        seed: seed of all randomness.
        offset: int64[n], filled for the best order.

    Returns:
        The most bytes that any block sticks out by, at most 0 if the climb succeeded.
    """
    np.random.seed(seed)  # noqa: NPY002  (numba's own generator, private to compiled code)
    n, first, last, high = len(order), problem.first, problem.last, problem.high
    trial, trial_offset = order.copy(), np.empty(n, dtype=np.int64)
    over = place_in_order(problem, order, False, offset)
    culprits = np.empty(n, dtype=np.int64)
    for _ in range(rounds):
        # Invariant: order is the best order so far, offset and over belong to it.
        if over <= 0:
            break
        # culprits[:count] are ranks; at least one block sticks out.
        count = 0
        for rank in range(n):
            if offset[order[rank]] > high[order[rank]]:
                culprits[count] = rank
                count += 1
        rank = culprits[np.random.randint(count)]  # noqa: NPY002
        # Half of the moves, our choice, are of a neighbour instead; each block is its own neighbour, so count > 0.
        if np.random.random() < 0.5:  # noqa: NPY002
            block, count = order[rank], 0
            for other in range(n):
                if first[order[other]] <= last[block] and last[order[other]] >= first[block]:
                    culprits[count] = other
                    count += 1
            rank = culprits[np.random.randint(count)]  # noqa: NPY002
        target = np.random.randint(n)  # noqa: NPY002
        # Rotate the stretch between the two ranks, so that the block comes to `target` and the rest keep their order.
        trial[:] = order
        block = trial[rank]
        if target < rank:
            trial[target + 1 : rank + 1] = order[target:rank]
        else:
            trial[rank:target] = order[rank + 1 : target + 1]
        trial[target] = block
        reached = place_in_order(problem, trial, False, trial_offset)
        # Ties are accepted, so that the climb can cross plateaus.
        if reached <= over:
            over = reached
            order[:] = trial
            offset[:] = trial_offset
    return over
