"""Occupancy of fast memory as observations show it: drawn from a state, or brought up to date after a move.

A profile shows the last 64 ops, the current one last, in one of two forms:

- fine, of the Dict: uint8[2, 64, 64], channel (all blocks, protected blocks), address bin, op; 255 stands for a bin
  that is full.
- coarse, of the flat observation: uint16[64, 16], a ring of ops, in which op t has row t modulo 64; channel and, eight
  to each channel, coarse address bin. A cell is the sum of the fine profile's eight bins in that op.

Kernels take either; the branch on `ndim` is decided when they are compiled.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.array_rows import at
from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.observation import BINS
from memplace_env.envs.malloc_game.state import BLOCKS, LIVE, OP, PAST, QUEUE_HEAD, USE

COARSE: Final = 8
"""Address bins of the coarse profile."""
SPAN: Final = BINS // COARSE
"""Address bins of the fine profile in one of the coarse one."""


def empty_profiles(count: int, flat: bool) -> NDArray[Any]:
    """Return uninitialised profiles of `count` states: coarse ones if `flat`, else fine ones."""
    return np.empty((count, BINS, 2 * COARSE), np.uint16) if flat else np.empty((count, 2, BINS, BINS), np.uint8)


@kernel
def draw_profiles(tables, layout, states, which, profiles, first, last):
    """Draw the profiles of games `which[first:last]` from nothing but their `AddressRows` of tables and states."""
    for index in which[first:last]:
        its_tables, its_layout, state = at(tables, index), at(layout, index), at(states, index)
        profile = profiles[index]
        profile[:] = 0
        now = min(state[OP], len(its_tables.costs.compute_ps) - 1)
        _draw_all(its_tables, its_layout, state, max(now - BINS + 1, 0), now, profile)


@kernel(borrows=True, forceinline=True)
def copy_profile(profile, into):
    """Copy a fine profile."""
    # By words of eight cells: a copy of the arrays as they are would go cell by cell.
    words, copied = profile.reshape(2 * BINS * BINS).view(np.uint64), into.reshape(2 * BINS * BINS).view(np.uint64)
    for word in range(len(words)):
        copied[word] = words[word]


@kernel(borrows=True, forceinline=True)
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


@kernel(borrows=True, forceinline=True)
def update_profile(tables, layout, state, before, profile):
    """Bring the profile of the state `before` the last move up to date: what `draw_profiles` draws, for less."""
    use, last_op, blocks, committed_until, turn = before
    if use == state[USE]:
        return
    block = state[layout.block + tables.use_tensor[use]]
    if turn < state[QUEUE_HEAD] and state[layout.drained + state[layout.queue + turn]] < last_op:
        _clear_last(profile, last_op)  # after a wait, blocks are no longer needed in this op that were drawn there
        _draw_all(tables, layout, state, last_op, last_op, profile)
    elif state[layout.level + use] == 0:
        # A new block is drawn from its start, one that is used again from the op after those drawn before.
        since = 0 if block >= blocks else committed_until + 1
        _draw(tables, layout, state, block, since, last_op, last_op, profile)
    now = min(state[OP], len(tables.costs.compute_ps) - 1)
    if now == last_op:
        return
    # The move closed ops: one column is shifted out for each; more than the picture has need not be.
    for op in range(max(last_op, now - BINS) + 1, now + 1):
        if profile.ndim == 2:
            _clear_last(profile, op)
        else:
            _shift(profile.reshape(2 * BINS * BINS).view(np.uint64))
    _draw_all(tables, layout, state, last_op + 1, now, profile)


@kernel(borrows=True)
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


@kernel(borrows=True, forceinline=True)
def _clear_last(profile, op):
    """Empty the column of an op, in a fine profile the last one."""
    if profile.ndim == 2:
        profile[op % BINS] = 0
    else:
        profile[:, :, BINS - 1] = 0


@kernel(borrows=True, forceinline=True)
def _shift(words):
    """Move a profile, as little-endian words of eight cells, one column to the left; the last column becomes 0."""
    # The lowest byte of a word is its leftmost cell: shifting right by 8 bits drops it, and the next word's lowest byte
    # moves into the highest, 56 bits up.
    byte, rest = np.uint64(8), np.uint64(56)
    # One loop over all lines, which compiles to vector code; it moves the next line's first cell into a line's last.
    for word in range(len(words) - 1):
        words[word] = words[word] >> byte | words[word + 1] << rest
    words[-1] >>= byte
    for word in range(BINS // 8 - 1, len(words), BINS // 8):
        words[word] = words[word] << byte >> byte


@kernel(borrows=True, forceinline=True)
def _draw(tables, layout, state, block, since, until, now, profile):
    """Add ops since..until of a block to a profile whose last op is `now`.

    Shares of a bin are rounded down, so that they never add up to more than 255.
    """
    # From here on ops are columns: `first_op` is the op of column 0, and ends are exclusive.
    first_op = now - BINS + 1
    start, given = state[layout.start + block], -2 - state[layout.arrived + block]
    begin = max(start, since, first_op) - first_op
    end = min(state[layout.committed_until + block], until) - first_op + 1
    if end <= begin:
        return
    protected = min(state[layout.released + block], until) - first_op + 1
    # In the first op of a result in place the operand is drawn, and the result only as protected if that is not.
    shown = max(begin, start + (given >= 0) - first_op)
    guarded = shown if given >= 0 and state[layout.released + given] >= start else begin
    low = state[layout.offset + block]
    high = low + tables.size[state[layout.tensor + block]]
    # Bin b covers bytes b * capacity / BINS to (b + 1) * capacity / BINS; all is scaled by BINS to stay in integers.
    # Only the first and the last bin of a block can be filled in part.
    capacity, low, high = tables.capacity, low * BINS, high * BINS
    first, last = _quotient(low, capacity), _quotient(high - 1, capacity)
    first_share = _quotient((min(high, (first + 1) * capacity) - low) * 255, capacity)
    last_share = _quotient((high - max(low, last * capacity)) * 255, capacity)
    if profile.ndim == 2:
        # One pass per coarse bin, with the sum of the shares of its bins.
        for coarse in range(first // SPAN, last // SPAN + 1):
            share = 0
            for address in range(max(first, coarse * SPAN), min(last, coarse * SPAN + SPAN - 1) + 1):
                share += first_share if address == first else last_share if address == last else 255
            for op in range(first_op + shown, first_op + end):
                profile[op % BINS, coarse] += np.uint16(share)
            for op in range(first_op + guarded, first_op + min(protected, end)):
                profile[op % BINS, COARSE + coarse] += np.uint16(share)
    else:
        for address in range(first, last + 1):
            share = first_share if address == first else last_share if address == last else 255
            line = profile[0, address]
            for column in range(shown, end):
                line[column] += np.uint8(share)
            line = profile[1, address]
            for column in range(guarded, min(protected, end)):
                line[column] += np.uint8(share)


@kernel(borrows=True, forceinline=True, error_model="numpy")
def _quotient(value, by):
    """Return value // by for 0 <= value < 2**53; processors divide floats several times faster than integers."""
    quotient = np.int64(value / by)
    # Rounded to the nearest float, a quotient just below an integer may become that integer.
    return quotient - (quotient * by > value)
