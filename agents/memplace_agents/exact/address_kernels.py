"""Compiled searches for addresses: n blocks with fixed lifetimes in one memory ("dynamic storage allocation").

All kernels take int64[n] arrays: `size` in bytes, `first` and `last` op of each block's life, inclusive, and `below`,
the byte at which the block must end; beyond it the block sticks out. Two blocks are neighbours if they are alive in the
same op.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.placing_kernels import ENDLESS, narrower_gap

FOUND, NONE_EXISTS, GAVE_UP = 1, 0, -1
"""Outcomes of a search: addresses; a proof that there are none; neither."""


@kernel
def place_in_order(order, size, first, last, below, best_fit, offset):
    """Place blocks one by one into gaps between their neighbours that were placed before.

    Args:
        order: int64[n], blocks in the order in which they are placed.
        best_fit: take the smallest gap that fits rather than the lowest.
        offset: int64[n], filled.

    Returns:
        The most bytes that any block sticks out by; at most 0 if none does.
    """
    n = len(order)
    stack = np.empty(n, dtype=np.int64)
    over = -ENDLESS
    for rank in range(n):
        # Invariant: order[:rank] have their final offsets, and over is the most that they stick out by.
        block = order[rank]
        count = 0
        # Insertion sort: stack[:count] are the neighbours seen so far, by rising offset.
        for other in order[:rank]:
            if first[other] <= last[block] and last[other] >= first[block]:
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
            if chosen >= 0 and cursor + size[block] > below[block]:
                break
            neighbour = stack[position]
            chosen, chosen_gap = narrower_gap(chosen, chosen_gap, cursor, offset[neighbour] - cursor, size[block])
            if chosen >= 0 and not best_fit:
                break
            cursor = max(cursor, offset[neighbour] + size[neighbour])
        # No gap between neighbours fits: the block goes on top of them all.
        offset[block] = cursor if chosen < 0 else chosen
        over = max(over, offset[block] + size[block] - below[block])
    return over


@kernel
def climb(order, size, first, last, below, rounds, seed, offset):
    """Randomised hill climb over the placing order, after the allocator of Arm's Vela compiler.

    Blocks are placed at the lowest gap. Each round moves a block that sticks out, or one of its neighbours, to a random
    rank, and keeps the new order unless a block sticks out further.

    Args:
        order: int64[n], the order to start from; the best one on return.
        rounds: number of orders to try.
        seed: seed of all randomness.
        offset: int64[n], filled for the best order.

    Returns:
        The most bytes that any block sticks out by, at most 0 if the climb succeeded.
    """
    np.random.seed(seed)  # noqa: NPY002  (numba's own generator, private to compiled code)
    n = len(order)
    trial, trial_offset = order.copy(), np.empty(n, dtype=np.int64)
    over = place_in_order(order, size, first, last, below, False, offset)
    culprits = np.empty(n, dtype=np.int64)
    for _ in range(rounds):
        # Invariant: order is the best order so far, offset and over belong to it.
        if over <= 0:
            break
        # culprits[:count] are ranks; at least one block sticks out.
        count = 0
        for rank in range(n):
            if offset[order[rank]] + size[order[rank]] > below[order[rank]]:
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
        reached = place_in_order(trial, size, first, last, below, False, trial_offset)
        # Ties are accepted, so that the climb can cross plateaus.
        if reached <= over:
            over = reached
            order[:] = trial
            offset[:] = trial_offset
    return over


@kernel
def search(size, first, last, below, node_limit, offset):
    """Complete depth-first search for addresses, after MiniMalloc (Moffitt, ASPLOS 2024).

    If a packing exists, so does one with the least sum of offsets, in which every block lies on the ground or on a
    neighbour (else it could be lowered). The search builds exactly those, by rising (offset, index): the next block
    lies on top of its neighbours that are placed. Branches are cut when

    - some unplaced block could lie entirely below the next one (it would, in a packing of least offsets);
    - in some op, the bytes below plus all unplaced blocks alive there exceed what any block there may reach;
    - some unplaced block would stick out at its lowest;
    - the block left out cannot rise any more, as it has no unplaced neighbour.

    Args:
        first, last: ops numbered 0..S-1.
        node_limit: most blocks to place before giving up.
        offset: int64[n], filled if a packing is found.

    Returns:
        (FOUND, NONE_EXISTS or GAVE_UP, nodes visited).
    """
    # Row d of these arrays is the state after d blocks were placed, so that going back a level costs nothing:
    #   lowest[d, block]   the top of the block's placed neighbours, below which it cannot lie;
    #   floor[d, op]       the top of the placed blocks alive in the op;
    #   left[d, op]        the bytes of the unplaced blocks alive in the op.
    n, sections = len(size), last.max() + 1
    lowest = np.zeros((n + 1, n), dtype=np.int64)
    floor = np.zeros((n + 1, sections), dtype=np.int64)
    left = np.zeros((n + 1, sections), dtype=np.int64)
    # height[op] is the most that any block alive in the op may reach.
    height = np.zeros(sections, dtype=np.int64)
    for block in range(n):
        if size[block] > below[block]:
            return NONE_EXISTS, 0
        left[0, first[block] : last[block] + 1] += size[block]
        for section in range(first[block], last[block] + 1):
            height[section] = max(height[section], below[block])
    if (left[0] > height).any():
        return NONE_EXISTS, 0
    # chosen[d] is the block placed at depth d. (tried_offset[d], tried_block[d]) is the last candidate tried there; the
    # next one must be greater in this order, so that every packing comes up once.
    placed = np.zeros(n, dtype=np.bool_)
    chosen = np.full(n + 1, -1, dtype=np.int64)
    tried_offset = np.zeros(n + 1, dtype=np.int64)
    tried_block = np.full(n + 1, -1, dtype=np.int64)
    support = np.empty(sections, dtype=np.int64)
    depth, nodes = 0, 0
    while depth >= 0:
        if depth == n:
            return FOUND, nodes
        # The next block lies below the top that any unplaced block would have at its lowest: first cut above.
        ceiling = np.int64(2**62)
        for block in range(n):
            if not placed[block]:
                ceiling = min(ceiling, lowest[depth, block] + size[block])
        # The candidate with the least (offset, index) that is greater than the one tried before at this depth.
        pick, pick_offset = -1, ceiling
        for block in range(n):
            at = lowest[depth, block]
            later = at > tried_offset[depth] or (at == tried_offset[depth] and block > tried_block[depth])
            if not placed[block] and later and at < pick_offset:
                pick, pick_offset = block, at
        # All candidates of this depth were tried: undo the block placed one level up.
        if pick < 0:
            depth -= 1
            if depth >= 0:
                placed[chosen[depth]] = False
            continue
        nodes += 1
        if nodes > node_limit:
            return GAVE_UP, nodes
        tried_offset[depth], tried_block[depth] = pick_offset, pick
        top, low, high = pick_offset + size[pick], first[pick], last[pick]
        lowest[depth + 1] = lowest[depth]
        floor[depth + 1] = floor[depth]
        left[depth + 1] = left[depth]
        floor[depth + 1, low : high + 1] = top
        left[depth + 1, low : high + 1] -= size[pick]
        placed[pick] = True
        # support[op] is the lowest that any unplaced block alive in the op can begin: nothing comes below the block
        # just placed, as offsets rise.
        support[:] = np.int64(2**62)
        can_rise, fits = False, True
        for block in range(n):
            if placed[block]:
                continue
            if first[block] <= high and last[block] >= low:
                lowest[depth + 1, block] = max(lowest[depth + 1, block], top)
                can_rise = True
            at = max(lowest[depth + 1, block], pick_offset)
            if at + size[block] > below[block]:
                fits = False
            for section in range(first[block], last[block] + 1):
                support[section] = min(support[section], at)
        # Second cut: the unplaced blocks of an op lie above its floor and above its support, one above the other.
        for section in range(sections):
            rest = left[depth + 1, section]
            if rest > 0 and max(floor[depth + 1, section], support[section]) + rest > height[section]:
                fits = False
                break
        # Third cut: without an unplaced neighbour, leaving this block out now would not let it lie higher later.
        if not can_rise:
            tried_offset[depth] = np.int64(2**62)
        if not fits:
            placed[pick] = False
            continue
        offset[pick] = pick_offset
        chosen[depth] = pick
        depth += 1
        # The next block comes after this one in the order of (offset, index).
        tried_offset[depth], tried_block[depth] = pick_offset, pick
    return NONE_EXISTS, nodes
