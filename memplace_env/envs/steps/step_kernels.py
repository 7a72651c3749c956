"""One decision, compiled: what fits, what a level saves, and the observation, on states that are int64 arrays.

A state has the fields below, then the level of each entry (BACKING while it is undecided), then for each of the two
fast levels the free bytes of every op as a segment tree (`free_bytes`): `least`, then `taken`. Copying it forks the
episode. Functions for one state come first; the others loop over a batch.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from memplace_env._lib.array_rows import at
from memplace_env._lib.kernel import kernel
from memplace_env.envs.steps.step_tables import BACKING
from memplace_env.machine.costs.op_time_kernels import op_time
from memplace_env.placement.compiler.free_bytes import fewest_free, new_profile, take

CURSOR: Final = 0
"""Entry that is decided next, E once the episode is over: entries are numbered in the order of deciding."""
ESTIMATE: Final = 1
"""Latency by the cost arrays with undecided entries in the backing memory, ps."""
MASK: Final = 2
"""Levels that have room for the next entry as bits, 1 << level; 0 once the episode is over."""
FREE: Final = 3
"""Fewest bytes that are free during the next entry's life, or that it would share; a field for each fast level."""
SAVED: Final = 5
"""Time that the next entry saves there, against the backing memory, while undecided entries are in that; two fields."""
MISSED: Final = 7
"""Time that it saves there while undecided entries are in their fastest levels, ps; two fields."""
TAKEN: Final = 9
"""Bytes times ops that decided entries hold in each of the two fast levels."""
HEAD: Final = 11
"""Number of these fields."""

_PLENTY = np.int64(2**62)


@kernel(inline="always")
def profile_of(tables, state, level):
    """Return the segment tree of a fast level's free bytes, as views into the state."""
    # Both trees are equally long and fill the rest of the state: least and taken of level 0, then those of level 1.
    entries = len(tables.decision)
    nodes = (len(state) - HEAD - entries) // 4
    begin = HEAD + entries + 2 * level * nodes
    return state[begin : begin + nodes], state[begin + nodes : begin + 2 * nodes]


@kernel
def first_state(tables):
    """Return int64[size], the state before the first decision."""
    entries = len(tables.decision)
    least, taken = new_profile(tables.free[0])
    state = np.zeros(HEAD + entries + 4 * len(least), dtype=np.int64)
    state[ESTIMATE] = tables.all_backing_ps
    for entry in range(entries):
        state[HEAD + entry] = BACKING
    for level in range(2):
        least, taken = new_profile(tables.free[level])
        into = profile_of(tables, state, level)
        into[0][:] = least
        into[1][:] = taken
    _prepare(tables, state)
    return state


@kernel(forceinline=True, borrows=True)
def entry_times(tables, level, cursor, entry):
    """Return six times of all ops that use an entry, in ps, see the loop.

    Args:
        tables: the StepTables.
        level: int64[E], levels of the entries before `cursor`; those from there on are undecided.
        cursor: number of decided entries.
        entry: the entry to move.

    Returns:
        Times with the entry in level 0, 1, 2 while undecided entries are in the backing memory, and the same while
        they are in their fastest levels.
    """
    low0, low1, low2 = np.int64(0), np.int64(0), np.int64(0)
    high0, high1, high2 = np.int64(0), np.int64(0), np.int64(0)
    for index in range(tables.op_ptr[entry], tables.op_ptr[entry + 1]):
        op = tables.entry_op[index]
        # Time of each port without the entry: a, b, c while undecided entries are in the backing memory, and d, e, f
        # while they are in their fastest levels; own* is what the entry adds to the port of the level that it is in.
        a, b, c = np.int64(0), np.int64(0), np.int64(0)
        d, e, f = np.int64(0), np.int64(0), np.int64(0)
        own0, own1, own2 = np.int64(0), np.int64(0), np.int64(0)
        for use in range(tables.use_ptr[op], tables.use_ptr[op + 1]):
            user = tables.use_entry[use]
            if user == entry:
                own0 += tables.costs.use_ps[use, 0]
                own1 += tables.costs.use_ps[use, 1]
                own2 += tables.costs.use_ps[use, 2]
                continue
            low = level[user] if 0 <= user < cursor else BACKING
            high = tables.fastest[user] if user >= cursor else low
            if low == 0:
                a += tables.costs.use_ps[use, 0]
            elif low == 1:
                b += tables.costs.use_ps[use, 1]
            else:
                c += tables.costs.use_ps[use, 2]
            if high == 0:
                d += tables.costs.use_ps[use, 0]
            elif high == 1:
                e += tables.costs.use_ps[use, 1]
            else:
                f += tables.costs.use_ps[use, 2]
        low0 += op_time(tables.costs, op, (a + own0, b, c))[0]
        low1 += op_time(tables.costs, op, (a, b + own1, c))[0]
        low2 += op_time(tables.costs, op, (a, b, c + own2))[0]
        high0 += op_time(tables.costs, op, (d + own0, e, f))[0]
        high1 += op_time(tables.costs, op, (d, e + own1, f))[0]
        high2 += op_time(tables.costs, op, (d, e, f + own2))[0]
    return low0, low1, low2, high0, high1, high2


@kernel(borrows=True)
def _share(ptr, pair, profile, state, entry, level, sign):
    """Give back the bytes that an undecided entry would share with others in a level, or with -1 take them again.

    Returns:
        These bytes, each in one op: of an operand and a result in its place only one counts.
    """
    shared, begin, levels = np.int64(0), ptr[entry], state[HEAD:]
    # `begin` is the first row of a group.
    while begin < ptr[entry + 1]:
        op, size, end = pair[begin, 0], pair[begin, 1], begin + pair[begin, 6]
        # Once the entry is there, as many pairs as before have both ends there, or more.
        count = _sharing(pair[begin:end], levels, level, entry) - _sharing(pair[begin:end], levels, level, -1)
        if count > 0:
            take(profile, op, op, -sign * count * size)
            shared += count * size
        begin = end
    return shared


@kernel(borrows=True)
def _sharing(group, levels, level, further):
    """Return how many pairs of a group lie in a level, one after the other, each tensor in one of them at most.

    `levels` int64[>= E] are those of entries; the entry `further` is there too.
    """
    used, count = np.int64(0), 0
    # Bit n of `used` says whether the group's pair n counts.
    for index in range(len(group)):
        operand, result = group[index, 2], group[index, 3]
        counts = (operand == further or levels[operand] == level) and (result == further or levels[result] == level)
        for earlier in range(index):
            met = group[earlier, 4] == group[index, 4] or group[earlier, 5] == group[index, 5]
            counts &= not (met and used >> earlier & 1)
        if counts:
            used |= np.int64(1) << index
            count += 1
    return count


@kernel(forceinline=True, borrows=True)
def _prepare(tables, state):
    """Fill in the fields about the next entry; zeros once there is none."""
    entry = state[CURSOR]
    state[MASK:TAKEN] = 0
    if entry == len(tables.decision):
        return
    state[MASK] = 1 << BACKING
    paired = tables.pair_ptr[entry] < tables.pair_ptr[entry + 1]
    for level in range(2):
        profile, fewest, fits = profile_of(tables, state, level), _PLENTY, tables.may[entry, level]
        if paired:
            _share(tables.pair_ptr, tables.pair, profile, state, entry, level, 1)
        # Segments of one entry do not overlap, so that each is looked up by itself.
        for segment in range(tables.segment_ptr[entry], tables.segment_ptr[entry + 1]):
            free = fewest_free(profile, tables.segment_first[segment], tables.segment_last[segment])
            fits &= free >= tables.segment_bytes[segment]
            fewest = min(fewest, free)
        if paired:
            _share(tables.pair_ptr, tables.pair, profile, state, entry, level, -1)
        state[FREE + level] = fewest
        if fits:
            state[MASK] |= 1 << level
    if not tables.may[entry, BACKING] and state[MASK] != 1 << BACKING:
        state[MASK] -= 1 << BACKING
    low0, low1, low2, high0, high1, high2 = entry_times(tables, state[HEAD:], entry, entry)
    state[SAVED], state[MISSED] = low2 - low0, high2 - high0
    if tables.capacity[1] > 0:
        state[SAVED + 1], state[MISSED + 1] = low2 - low1, high2 - high1


@kernel(borrows=True)
def step_state(tables, state, action):
    """Decide the next entry of one state, in place.

    Args:
        tables: the StepTables.
        state: int64[size].
        action: the level wanted, 0..2; one that is not allowed is replaced by the next slower one, or the slowest, that
            is.

    Returns:
        Picoseconds by which the estimate falls, and the level given; 0 and -1 in a finished state.
    """
    entry = state[CURSOR]
    if entry == len(tables.decision):
        return np.int64(0), np.int64(-1)
    level = np.int64(action)
    while level < BACKING and not state[MASK] >> level & 1:
        level += 1
    # Ends with an allowed level, as there always is one.
    while not state[MASK] >> level & 1:
        level -= 1
    gain = np.int64(0)
    if level < BACKING:
        gain = state[SAVED + level]
        profile = profile_of(tables, state, level)
        for segment in range(tables.segment_ptr[entry], tables.segment_ptr[entry + 1]):
            take(
                profile,
                tables.segment_first[segment],
                tables.segment_last[segment],
                tables.segment_bytes[segment],
            )
        state[TAKEN + level] += tables.byte_ops[entry]
        if tables.pair_ptr[entry] < tables.pair_ptr[entry + 1]:
            state[TAKEN + level] -= _share(tables.pair_ptr, tables.pair, profile, state, entry, level, 1)
    state[HEAD + entry] = level
    state[ESTIMATE] -= gain
    state[CURSOR] = entry + 1
    _prepare(tables, state)
    return gain, level


@kernel(borrows=True)
def observe_state(tables, state, row):
    """Fill in one observation, float32[N]; `step_features.FEATURES` names the numbers."""
    entries, entry = len(tables.decision), state[CURSOR]
    for level in range(3):
        row[level] = state[MASK] >> level & 1
    at = 3
    fixed = tables.entry_features.shape[1]
    for feature in range(fixed):
        row[at + feature] = tables.entry_features[entry, feature] if entry < entries else 0
    at += fixed
    # Times are shown as t / (t + mean op), where the mean op is that with everything in the backing memory.
    scale = tables.all_backing_ps / len(tables.costs.compute_ps)
    held = np.int64(0)
    if entry < entries:
        for segment in range(tables.segment_ptr[entry], tables.segment_ptr[entry + 1]):
            held = max(held, tables.segment_bytes[segment])
    for level in range(2):
        capacity = max(tables.capacity[level], 1)
        saved, missed = max(state[SAVED + level], 0), max(state[MISSED + level], 0)
        row[at + level] = state[FREE + level] / capacity
        row[at + 2 + level] = max(state[FREE + level] - held, 0) / capacity
        row[at + 4 + level] = saved / (saved + scale)
        row[at + 6 + level] = missed / (missed + scale)
        row[at + 8 + level] = state[TAKEN + level] / (capacity * len(tables.costs.compute_ps))
        row[at + 10 + level] = 1 - profile_of(tables, state, level)[0][1] / capacity
    estimate, most = state[ESTIMATE], tables.all_backing_ps - tables.all_fastest_ps
    row[at + 12] = entry / entries
    row[at + 13] = min(estimate / max(tables.all_backing_ps, 1), 1.0)
    row[at + 14] = min(max((tables.all_backing_ps - estimate) / max(most, 1), 0.0), 1.0)
    row[at + 15] = tables.native_ps / (tables.native_ps + estimate)
    at += 16
    for feature in range(len(tables.program_features)):
        row[at + feature] = tables.program_features[feature]


@kernel(borrows=True)
def step_all(tables, states, actions, gains, played):
    """Decide the next entry in each of B states; see `step_state`."""
    for index in range(len(states)):
        gains[index], played[index] = step_state(tables, states[index], actions[index])


@kernel
def observe_all(tables, states, which, rows, first, last):
    """Fill rows i = first..last-1 of float32[n, N] with the observations of episodes `which[i]`."""
    for row in range(first, last):
        observe_state(at(tables, which[row]), at(states, which[row]), rows[row])


@kernel
def step_and_observe_all(tables, states, actions, moves, heads, rows, first, last):
    """Decide and observe in episodes first..last-1 of B, one by one, so that a state is in the cache for both.

    Args:
        tables, states: `AddressRows` of what each episode plays, and its state.
        actions: int64[B], levels wanted.
        moves: int64[3, B], filled with the picoseconds gained and the levels given, see `step_state`, and the decision
            of an assignment that comes next, -1 at the end.
        heads: int64[B, HEAD], filled with the first fields of the states.
        rows: float32[B, N], filled with the observations.
    """
    for index in range(first, last):
        its_tables, state = at(tables, index), at(states, index)
        moves[0, index], moves[1, index] = step_state(its_tables, state, actions[index])
        observe_state(its_tables, state, rows[index])
        moves[2, index] = its_tables.decision[state[CURSOR]] if state[CURSOR] < len(its_tables.decision) else -1
        # Masks, estimates and whether an episode is over are read from the heads, for all episodes at once.
        heads[index] = state[: heads.shape[1]]


@kernel
def gains_alone(tables):
    """Return int64[E, 2] twice: what each entry saves in the two fast levels before any decision.

    The first while all others are in the backing memory, the second while they are in their fastest levels.
    """
    entries = len(tables.decision)
    alone, missing = np.zeros((entries, 2), dtype=np.int64), np.zeros((entries, 2), dtype=np.int64)
    level = np.full(entries, BACKING, dtype=np.int64)
    for entry in range(entries):
        low0, low1, low2, high0, high1, high2 = entry_times(tables, level, 0, entry)
        alone[entry, 0], missing[entry, 0] = low2 - low0, high2 - high0
        if tables.capacity[1] > 0:
            alone[entry, 1], missing[entry, 1] = low2 - low1, high2 - high1
    return alone, missing


@kernel
def bytes_before(tables, order):
    """Return int64[E], most bytes during each entry's life that the entries before it in `order` int64[E] need.

    Of an operand and a result in its place, both before the entry, one counts.
    """
    entries = len(tables.decision)
    profile = new_profile(np.zeros(len(tables.costs.compute_ps), dtype=np.int64))
    peak = np.zeros(entries, dtype=np.int64)
    state = np.full(HEAD + entries, BACKING, dtype=np.int64)  # level 0 holds the entries before
    # The tree counts below zero: what is taken is what earlier entries need, whatever the capacity.
    for entry in order:
        for segment in range(tables.segment_ptr[entry], tables.segment_ptr[entry + 1]):
            free = fewest_free(profile, tables.segment_first[segment], tables.segment_last[segment])
            peak[entry] = max(peak[entry], -free)
        for segment in range(tables.segment_ptr[entry], tables.segment_ptr[entry + 1]):
            take(profile, tables.segment_first[segment], tables.segment_last[segment], tables.segment_bytes[segment])
        if tables.pair_ptr[entry] < tables.pair_ptr[entry + 1]:
            _share(tables.pair_ptr, tables.pair, profile, state, entry, 0, 1)
        state[HEAD + entry] = 0
    return peak
