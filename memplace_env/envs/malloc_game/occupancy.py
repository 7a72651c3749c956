"""Occupancy of fast memory as observations show it: drawn from a state, or brought up to date after a move.

A profile is uint8[2, 64, 64]: channel (all blocks, protected blocks), address bin, op; the last column is the current
op. 255 stands for a bin that is full.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.observation import BINS
from memplace_env.envs.malloc_game.state import BLOCKS, LIVE, OP, PAST, QUEUE_HEAD, USE


@kernel
def draw_profiles(tables, layout, states, profiles):
    """Draw profiles uint8[B, 2, 64, 64] from nothing but the states int64[B, size]."""
    for index in range(len(states)):
        state, profile = states[index], profiles[index]
        profile[:] = 0
        now = min(state[OP], len(tables.compute_ps) - 1)
        _draw_all(tables, layout, state, max(now - BINS + 1, 0), now, profile)


@kernel
def before_move(tables, layout, state):
    """Return what `update_profile` needs of the state before a move.

    Use, op, number of blocks, last op for which the used tensor's block is needed, index of the oldest pending
    write-back.
    """
    committed_until = np.int64(-1)
    if state[USE] < len(tables.use_op):
        block = state[layout.block + tables.use_tensor[state[USE]]]
        committed_until = state[layout.committed_until + block] if block >= 0 else committed_until
    return state[USE], state[OP], state[BLOCKS], committed_until, state[QUEUE_HEAD]


@kernel
def update_profile(tables, layout, state, before, profile):
    """Bring the profile of the state `before` the last move up to date: what `draw_profiles` draws, for less."""
    use, last_op, blocks, committed_until, turn = before
    if use == state[USE]:
        return
    block = state[layout.block + tables.use_tensor[use]]
    if turn < state[QUEUE_HEAD] and state[layout.drained + state[layout.queue + turn]] < last_op:
        profile[:, :, BINS - 1] = 0  # after a wait, blocks are no longer needed in this op that were drawn there
        _draw_all(tables, layout, state, last_op, last_op, profile)
    elif state[layout.level + use] == 0:
        # A new block is drawn from its start, one that is used again from the op after those drawn before.
        since = 0 if block >= blocks else committed_until + 1
        _draw(tables, layout, state, block, since, last_op, last_op, profile)
    now = min(state[OP], len(tables.compute_ps) - 1)
    if now == last_op:
        return
    # The move closed ops: one column is shifted out for each; more than the picture has need not be.
    for _ in range(min(now - last_op, BINS)):
        _shift(profile.reshape(2 * BINS * BINS).view(np.uint64))
    _draw_all(tables, layout, state, last_op + 1, now, profile)


@kernel
def _draw_all(tables, layout, state, since, now, profile):
    """Add ops since..now of every block to a profile whose last column is op `now`."""
    # Live blocks that are needed by no op since the one before the current are in `past`, too: the second loop's.
    for index in range(state[LIVE]):
        block = state[layout.live + index]
        if state[layout.committed_until + block] >= max(since, state[OP] - 1):
            _draw(tables, layout, state, block, since, now, now, profile)
    # `past` is sorted by `committed_until`: the first block needed only before `since` ends the loop.
    for index in range(state[PAST] - 1, -1, -1):
        block = state[layout.past + index]
        if state[layout.committed_until + block] < since:
            break
        _draw(tables, layout, state, block, since, now, now, profile)


@kernel
def _shift(words):
    """Move a profile, as little-endian words of eight cells, one column to the left; the last column becomes 0."""
    # The lowest byte of a word is its leftmost cell: shifting right by 8 bits drops it, and the next word's lowest byte
    # moves into the highest, 56 bits up.
    byte, rest = np.uint64(8), np.uint64(56)
    for line in range(0, len(words), BINS // 8):
        for word in range(line, line + BINS // 8 - 1):
            words[word] = words[word] >> byte | words[word + 1] << rest
        words[line + BINS // 8 - 1] >>= byte


@kernel
def _draw(tables, layout, state, block, since, until, now, profile):
    """Add ops since..until of a block to a profile whose last column is op `now`.

    Shares of a bin are rounded down, so that they never add up to more than 255.
    """
    # From here on ops are columns: `left` is the op of column 0, and ends are exclusive.
    left = now - BINS + 1
    begin = max(state[layout.start + block], since, left) - left
    end = min(state[layout.committed_until + block], until) - left + 1
    if end <= begin:
        return
    protected = min(state[layout.released + block], until) - left + 1
    low = state[layout.offset + block]
    high = low + tables.size[state[layout.tensor + block]]
    # Bin b covers bytes b * capacity / BINS to (b + 1) * capacity / BINS; all is scaled by BINS to stay in integers.
    # Only the first and the last bin of a block can be filled in part.
    first_bin, last_bin = low * BINS // tables.capacity, (high * BINS - 1) // tables.capacity
    for address in range(first_bin, last_bin + 1):
        share = np.uint8(255)
        if address in (first_bin, last_bin):
            bottom, top = max(low * BINS, address * tables.capacity), min(high * BINS, (address + 1) * tables.capacity)
            share = np.uint8((top - bottom) * 255 // tables.capacity)
        line = profile[0, address]
        for op in range(begin, end):
            line[op] += share
        line = profile[1, address]
        for op in range(begin, min(protected, end)):
            line[op] += share
