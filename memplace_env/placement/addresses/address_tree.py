"""Compiled complete search for addresses, by restarts that learn where it fails.

If a packing exists, so does one with the least sum of offsets, in which no block can be lowered. The search looks for
exactly that. It places blocks from below: an unplaced block that is the lowest one in all of its sections lies as low
as the placed ones and the pins let it, at its `base`. A *candidate* is an unplaced block that may lie at its base, and
below which no unplaced neighbour fits; while any are unplaced the lowest one is. Of any candidate, one holds:

- it is the lowest unplaced block in all of its sections, and lies at its base: it is placed;
- some unplaced neighbour lies below it, so that it begins no lower than the lowest end of one: it is delayed.

A block that is delayed and does not rest on placed ones begins no lower than the lowest end of an unplaced neighbour.
A section fails if some unplaced bytes do not fit above the lowest unplaced block. Where no unplaced block crosses a cut
in time, the parts at both sides are independent: a part that fails goes back to the decision that split it off.

Sections are numbered ops at which a block begins. Blocks are sorted by `first`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.addresses.address_kernels import FOUND, GAVE_UP, NONE_EXISTS
from memplace_env.placement.compiler.placing_kernels import ENDLESS

RULES = 4
"""Ways to search in turns, each with failures of its own: candidates by failures times load, and by failures alone;
conclusions from early sections first, and from late ones."""
RUN = 2
"""Nodes of the shortest run, for each block. Our choice."""
NOISE = (0.01, 0.1)
"""Share of all ranks by which they are disturbed after the first round, in turns. Our choice."""


class TreeState(NamedTuple):
    """State of the search at a node.

    Attributes:
        waiting: bool[n], neither placed nor pinned.
        base, low: int64[n], least offsets beside the placed blocks, and beside all.
        clear: bool[n], the block was found to be a candidate at its `low`; ends only rise from there.
        watch: int64[n], an unplaced neighbour that fits below, as far as is known; may be out of date.
        left: int64[S], bytes of waiting blocks.
        cross: int64[S], waiting blocks alive in the section and in the next one.
        witness: int64[S], a waiting block above which all others fit, as far as is known; may be out of date.
        saved: int64[n], the number of the node at which the block was last written to the trail.
        weight: float64[S], failures in each section, of the rule whose turn it is.
    """

    waiting: np.ndarray
    base: np.ndarray
    low: np.ndarray
    clear: np.ndarray
    watch: np.ndarray
    left: np.ndarray
    cross: np.ndarray
    witness: np.ndarray
    saved: np.ndarray
    weight: np.ndarray


@kernel(forceinline=True, borrows=True)
def lifted(problem, block, at):
    """Return the least offset of at least `at` that suits the block's alignment and meets no pinned block."""
    align = problem.align[block]
    if align > 1:
        at += -at % align
    # By rising offset: what has been passed lies below.
    for pin in problem.pins:
        if problem.first[pin] > problem.last[block] or problem.last[pin] < problem.first[block]:
            continue
        if problem.pin[pin] >= at + problem.size[block]:
            break
        end = problem.pin[pin] + problem.size[pin]
        if end > at:
            at = end + -end % align
    return at


@kernel(borrows=True)
def pins_fit(problem):
    """Return whether no two pinned blocks meet."""
    for block in problem.pins:
        for other in problem.pins:
            if (
                other != block
                and problem.first[other] <= problem.last[block]
                and problem.last[other] >= problem.first[block]
            ):
                low, pin = problem.pin[other], problem.pin[block]
                if low < pin + problem.size[block] and low + problem.size[other] > pin:
                    return False
    return True


@kernel(borrows=True)
def pinned_above(problem, section, at):
    """Return the bytes pinned in a section above an offset."""
    total = np.int64(0)
    for pin in problem.pins:
        if problem.first[pin] <= section <= problem.last[pin] and problem.pin[pin] >= at:
            total += problem.size[pin]
    return total


@kernel(forceinline=True, borrows=True)
def save(state, trail, used, node, block):
    """Write what is known of a block to the trail, once at each node; return its new length."""
    if state.saved[block] == node:
        return used
    state.saved[block] = node
    trail[used, 0], trail[used, 1], trail[used, 2] = block, state.base[block], state.low[block]
    trail[used, 3] = state.clear[block]
    return used + 1


@kernel(borrows=True)
def lowest_end(problem, state, block):
    """Return the lowest end of a waiting neighbour: any one at or below the block's `low`, noted as its watch."""
    least, low = ENDLESS, state.low[block]
    for index in range(problem.ptr[block], problem.ptr[block + 1]):
        other = problem.other[index]
        if state.waiting[other]:
            end = state.low[other] + problem.size[other]
            if end < least:
                least = end
                if end <= low:
                    state.watch[block] = other
                    return end
    return least


@kernel(borrows=True)
def blame(problem, state, block):
    """Count a failure of a block, shared over its life."""
    share = 1.0 / (problem.last[block] - problem.first[block] + 1)
    for section in range(problem.first[block], problem.last[block] + 1):
        state.weight[section] += share


@kernel(forceinline=True, borrows=True)
def fits_above(problem, state, section, block):
    """Return whether a block waits, and all that waits in the section fits above its `low`."""
    if not state.waiting[block]:
        return False
    need = state.low[block] + state.left[section]
    if len(problem.pins) > 0:
        need += pinned_above(problem, section, state.low[block])
    return need <= problem.top[section]


@kernel(forceinline=True, borrows=True)
def has_witness(problem, state, section):
    """Return whether all that waits in a section fits above some block, noted as its witness."""
    if fits_above(problem, state, section, state.witness[section]):
        return True
    anchor = problem.begin[section]
    for block in range(anchor, problem.begin[section + 1]):
        if fits_above(problem, state, section, block):
            state.witness[section] = block
            return True
    # Of the neighbours of a block that begins here, those that began earlier are alive here too.
    for index in range(problem.ptr[anchor], problem.ptr[anchor + 1]):
        other = problem.other[index]
        if problem.first[other] >= section:
            break
        if fits_above(problem, state, section, other):
            state.witness[section] = other
            return True
    return False


@kernel(borrows=True)
def settle(problem, state, trail, used, node, begin, end, late):
    """Draw conclusions in the sections begin..end, from their end if `late`.

    Returns:
        (whether the node may lead to a packing, length of the trail).
    """
    for _ in range(8):
        changed = False
        low_block, high_block = problem.begin[begin], problem.begin[end + 1] - 1
        for index in range(low_block, high_block + 1):
            block = low_block + high_block - index if late else index
            if not state.waiting[block] or state.clear[block]:
                continue
            low, watch = state.low[block], state.watch[block]
            if state.waiting[watch] and state.low[watch] + problem.size[watch] <= low:
                continue
            least = lowest_end(problem, state, block)
            if least <= low:
                continue
            used = save(state, trail, used, node, block)
            if low == state.base[block]:
                fits = True
                for section in range(problem.first[block], problem.last[block] + 1):
                    above = state.left[section]
                    if len(problem.pins) > 0:
                        above += pinned_above(problem, section, low)
                    if low + above > problem.top[section]:
                        fits = False
                        if least == ENDLESS:
                            state.weight[section] += 1
                            return False, used
                        break
                if fits:
                    state.clear[block] = True
                    continue
            low = ENDLESS if least == ENDLESS else lifted(problem, block, least)
            if low > problem.high[block]:
                blame(problem, state, block)
                return False, used
            state.low[block] = low
            changed = True
        if not changed:
            break
    for index in range(begin, end + 1):
        section = begin + end - index if late else index
        if state.left[section] > 0 and not has_witness(problem, state, section):
            state.weight[section] += 1
            return False, used
    return True, used


@kernel(borrows=True)
def choose(problem, state, rank, loaded, begin, end):
    """Return the lowest candidate in the sections begin..end, or -1: of several the one over the worst section.

    Args:
        rank: float64[n], decides ties.
        loaded: multiply failures by the bytes that wait in the section.
    """
    floor, pick, pick_score = ENDLESS, -1, 0.0
    for block in range(problem.begin[begin], problem.begin[end + 1]):
        if not state.waiting[block] or not state.clear[block] or state.low[block] > floor:
            continue
        score = 0.0
        for section in range(problem.first[block], problem.last[block] + 1):
            score = max(score, state.weight[section] * (state.left[section] if loaded else 1))
        lower = state.low[block] < floor
        if lower or score > pick_score or (score == pick_score and rank[block] < rank[pick]):
            floor, pick, pick_score = state.low[block], block, score
    return pick


@kernel(borrows=True)
def place(problem, state, trail, used, node, block):
    """Place a candidate; return whether all its neighbours still may end in time, and the length of the trail."""
    state.waiting[block] = False
    for section in range(problem.first[block], problem.last[block] + 1):
        state.left[section] -= problem.size[block]
        if section < problem.last[block]:
            state.cross[section] -= 1
    top = state.low[block] + problem.size[block]
    for index in range(problem.ptr[block], problem.ptr[block + 1]):
        other = np.int64(problem.other[index])
        if not state.waiting[other] or state.base[other] >= top:
            continue
        used = save(state, trail, used, node, other)
        state.base[other] = lifted(problem, other, top)
        if state.base[other] > state.low[other]:
            state.low[other], state.clear[other] = state.base[other], False
            if state.low[other] > problem.high[other]:
                blame(problem, state, other)
                return False, used
    return True, used


@kernel(borrows=True)
def take_back(problem, state, trail, used, mark, block):
    """Undo the trail down to a mark, and the placing of a block unless it is -1."""
    while used > mark:
        used -= 1
        changed = trail[used, 0]
        state.base[changed], state.low[changed] = trail[used, 1], trail[used, 2]
        state.clear[changed] = trail[used, 3] != 0
    if block >= 0:
        state.waiting[block] = True
        for section in range(problem.first[block], problem.last[block] + 1):
            state.left[section] += problem.size[block]
            if section < problem.last[block]:
                state.cross[section] += 1


@kernel(borrows=True)
def split(problem, state, parts, count, head, origin, begin, end):
    """Put the parts of the sections begin..end that wait before others, the one of the most conflicts first.

    Args:
        parts: int64[p, 4], begin, end, the decision that split it off, and the part after it; or -1.
        count: rows in use.
        head: the part that came first.
        origin: the decision.

    Returns:
        (rows in use, the part that comes first).
    """
    start, heaviest, most, total = -1, -1, -1.0, 0.0
    for section in range(begin, end + 1):
        if state.left[section] > 0:
            if start < 0:
                start, total = section, 0.0
            total = max(total, state.weight[section])
            if section == end or state.cross[section] == 0:
                parts[count, 0], parts[count, 1], parts[count, 2], parts[count, 3] = start, section, origin, head
                if total > most:
                    heaviest, most = count, total
                head, start = count, -1
                count += 1
    if heaviest >= 0:
        for column in range(2):
            parts[head, column], parts[heaviest, column] = parts[heaviest, column], parts[head, column]
    return count, head


@kernel(borrows=True)
def luby(index):
    """Return a member of Luby's sequence 1, 1, 2, 1, 1, 2, 4, ...; the first is number 1."""
    length = 1
    while True:
        while length * 2 - 1 < index:
            length *= 2
        if length * 2 - 1 == index:
            return length
        index, length = index - length + 1, 1


@kernel
def prepare(problem, state, offset):
    """Fill the state before any decision, and offsets of pinned blocks; return whether there may be a packing."""
    for block in range(len(problem.size)):
        first, last, size, pin = problem.first[block], problem.last[block], problem.size[block], problem.pin[block]
        offset[block] = max(pin, 0)
        if offset[block] > problem.high[block]:
            return False
        for section in range(first, last + 1):
            problem.top[section] = max(problem.top[section], problem.high[block] + size)
        if pin < 0 < size:  # blocks without bytes lie anywhere
            state.waiting[block] = True
            state.base[block] = state.low[block] = lifted(problem, block, 0)
            if state.low[block] > problem.high[block]:
                return False
            state.left[first : last + 1] += size
            state.cross[first:last] += 1
    return True


@kernel
def search(problem, ranks, node_limit, seed, offset):
    """Search with restarts until there is a packing or a proof.

    Args:
        problem: a `PackingProblem`, of at least one block.
        ranks: int64[RULES, n], the place of each block in the order that decides ties.
        node_limit: most decisions before giving up.
        seed: of the disturbance of ranks.
        offset: int64[n], filled if a packing is found.

    Returns:
        (FOUND, NONE_EXISTS or GAVE_UP, decisions).
    """
    np.random.seed(seed)  # noqa: NPY002  (numba's own generator, private to compiled code)
    n, sections = len(problem.size), len(problem.top)
    weights = np.ones((RULES, sections))
    rank = np.empty(n)
    state = TreeState(
        np.zeros(n, dtype=np.bool_),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.bool_),
        np.arange(n),
        np.zeros(sections, dtype=np.int64),
        np.zeros(sections, dtype=np.int64),
        problem.begin[:-1].copy(),
        np.full(n, -1, dtype=np.int64),
        np.ones(sections),
    )
    if not prepare(problem, state, offset) or not pins_fit(problem):
        return NONE_EXISTS, 0
    trail = np.empty((4 * n + 64, 4), dtype=np.int64)
    parts = np.empty((3 * n + 4, 4), dtype=np.int64)
    # A row of `tree` is a decision: the block, the trail and the parts before it, its part, the decision before it.
    tree = np.empty((n + 1, 6), dtype=np.int64)
    fits, root = settle(problem, state, trail, 0, -2, 0, sections - 1, False)
    if not fits:
        return NONE_EXISTS, 0
    nodes, turn = 0, 0
    while turn == 0 or nodes < node_limit:
        rule, turns = turn % RULES, turn // RULES
        run_end = min(nodes + luby(turns + 1) * RUN * n, node_limit)
        for block in range(n):
            noise = NOISE[turns // 2 % 2] * n * np.random.random()  # noqa: NPY002
            rank[block] = ranks[rule, block] + (noise if turns > 0 else 0)
        turn += 1
        state.weight[:] = weights[rule]
        used, depth, back = root, 0, -1
        # Invariant: the blocks of `tree[:depth]` are placed. Sections begin..end are worked on, the parts from `head`
        # on come later, and `back` is the decision to go back to if this part fails.
        count, head = split(problem, state, parts, 0, -1, -1, 0, sections - 1)
        fits, opened, part = True, True, head
        while True:
            if opened:
                if head < 0:
                    for block in range(n):
                        if problem.pin[block] < 0:
                            offset[block] = state.low[block]
                    return FOUND, nodes
                part, back, head = head, parts[head, 2], parts[head, 3]
                opened = False
            begin, end = parts[part, 0], parts[part, 1]
            block = -1
            if fits:
                block = choose(problem, state, rank, rule % 2 == 0, begin, end)
                if block < 0:
                    fits = False
                    state.weight[begin : end + 1] += 1.0 / (end - begin + 1)
            if used + n > len(trail):
                trail = np.concatenate((trail, np.empty_like(trail)))
            if fits:
                if nodes >= run_end:
                    break
                nodes += 1
                tree[depth, 0], tree[depth, 1], tree[depth, 2] = block, used, count
                tree[depth, 3], tree[depth, 4], tree[depth, 5] = head, part, back
                back = depth
                depth += 1
                fits, used = place(problem, state, trail, used, nodes, block)
                if fits:
                    fits, used = settle(problem, state, trail, used, nodes, begin, end, rule > 1)
                if fits:
                    count, head = split(problem, state, parts, count, head, back, begin, end)
                    opened = True
                continue
            if back < 0:
                return NONE_EXISTS, nodes
            target = back
            while depth > target:
                depth -= 1
                take_back(problem, state, trail, used, tree[depth, 1], tree[depth, 0])
                used = tree[depth, 1]
            block, count, head = tree[target, 0], tree[target, 2], tree[target, 3]
            part, back = tree[target, 4], tree[target, 5]
            least = lowest_end(problem, state, block)
            if least == ENDLESS:
                continue
            nodes += 1
            used = save(state, trail, used, nodes, block)
            state.low[block], state.clear[block] = lifted(problem, block, least), False
            if state.low[block] > problem.high[block]:
                blame(problem, state, block)
                continue
            fits, used = settle(problem, state, trail, used, nodes, parts[part, 0], parts[part, 1], rule > 1)
        weights[rule] = state.weight
        while depth > 0:
            depth -= 1
            take_back(problem, state, trail, used, tree[depth, 1], tree[depth, 0])
            used = tree[depth, 1]
        take_back(problem, state, trail, used, root, -1)
    return GAVE_UP, nodes
