"""The picture of fast memory that observations hold: drawn from a state, or brought up to date after a move."""

from __future__ import annotations

import numpy as np

from memplace_env.envs.malloc_game.observation import BINS
from memplace_env.envs.malloc_game.state import BLOCKS, LIVE, OP, PAST, QUEUE_HEAD, USE
from memplace_env.kernel import kernel


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
    """What `update_profile` has to know of the state before a move.

    Use, op, number of blocks, last op that the used tensor's block is held, oldest pending write-back.
    """
    held = np.int64(-1)
    if state[USE] < len(tables.use_op):
        block = state[layout.block + tables.use_tensor[state[USE]]]
        held = state[layout.hold + block] if block >= 0 else held
    return state[USE], state[OP], state[BLOCKS], held, state[QUEUE_HEAD]


@kernel
def update_profile(tables, layout, state, before, profile):
    """Bring the profile of the state `before` the last move up to date: what `draw_profiles` draws, for less."""
    use, last_op, blocks, held, turn = before
    if use == state[USE]:
        return
    block = state[layout.block + tables.use_tensor[use]]
    if turn < state[QUEUE_HEAD] and state[layout.drained + state[layout.queue + turn]] < last_op:
        profile[:, :, BINS - 1] = 0  # After a wait, blocks are not held in this op that were drawn there.
        _draw_all(tables, layout, state, last_op, last_op, profile)
    elif state[layout.level + use] == 0:
        since = 0 if block >= blocks else held + 1
        _draw(tables, layout, state, block, since, last_op, last_op, profile)
    now = min(state[OP], len(tables.compute_ps) - 1)
    if now == last_op:
        return
    for _ in range(min(now - last_op, BINS)):
        _shift(profile.reshape(2 * BINS * BINS).view(np.uint64))
    _draw_all(tables, layout, state, last_op + 1, now, profile)


@kernel
def _draw_all(tables, layout, state, since, now, profile):
    """Add ops since..now of every block to a profile whose last column is op `now`."""
    for place in range(state[LIVE]):
        block = state[layout.live + place]
        if state[layout.hold + block] >= max(since, state[OP] - 1):  # Else it is in the past, too.
            _draw(tables, layout, state, block, since, now, now, profile)
    for place in range(state[PAST] - 1, -1, -1):
        block = state[layout.past + place]
        if state[layout.hold + block] < since:
            break
        _draw(tables, layout, state, block, since, now, now, profile)


@kernel
def _shift(words):
    """Move a profile, as little-endian words of eight cells, one column to the left; the last column becomes 0."""
    byte, rest = np.uint64(8), np.uint64(56)
    for line in range(0, len(words), BINS // 8):
        for word in range(line, line + BINS // 8 - 1):
            words[word] = words[word] >> byte | words[word + 1] << rest
        words[line + BINS // 8 - 1] >>= byte


@kernel
def _draw(tables, layout, state, block, since, until, now, profile):
    """Add ops since..until of a block to a profile whose last column is op `now`.

    A bin's share is rounded down, so that the shares of a bin never add up to more than 255.
    """
    left = now - BINS + 1
    begin = max(state[layout.start + block], since, left) - left
    end = min(state[layout.hold + block], until) - left + 1
    if end <= begin:
        return
    protected = min(state[layout.released + block], until) - left + 1
    low = state[layout.offset + block]
    high = low + tables.size[state[layout.tensor + block]]
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
