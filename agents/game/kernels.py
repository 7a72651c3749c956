"""Compiled parts of the searches: games that follow wishes, and annealing over wishes.

A wish is an action for each use that may turn out illegal: then the next best legal one is played, so that every
sequence of wishes is a game, and one that had no room is granted as soon as another steps back.
"""

from __future__ import annotations

import numpy as np

from memplace_env.envs.malloc_game.rules import play
from memplace_env.envs.malloc_game.state import COPY, ESTIMATE, MASK, NO_COPY, USE
from memplace_env.kernel import kernel


@kernel
def grant(mask, wish):
    """The wish if it is legal, else fast memory rather than Drop if that is, NoCopy rather than Copy for Drop."""
    if mask >> wish & 1:
        return wish
    second = COPY if wish == NO_COPY else NO_COPY
    return second if mask >> second & 1 else 3 - wish - second


@kernel
def follow(tables, layout, state, wishes):
    """Finish a state along wishes int8[U]."""
    while state[MASK] != 0:
        play(tables, layout, state, grant(state[MASK], wishes[state[USE]]))


@kernel
def preview(tables, layout, states, wishes, latency):
    """Fill `latency` int64[B] with that of each state if it is finished along wishes; states stay as they are."""
    trial = np.empty(layout.size, dtype=np.int64)
    for index in range(len(states)):
        trial[:] = states[index]
        follow(tables, layout, trial, wishes)
        latency[index] = trial[ESTIMATE]


@kernel
def anneal(tables, layout, uses, twins, first, stride, heats, seed, current, best):
    """One chain of simulated annealing, a game for each heat; returns the latency of its best game in ps.

    A move changes the wish of one decision that has a choice, or of all later uses of its tensor, or of a run of such
    decisions, or of the same decision in later layers; a game is replayed from the last saved state before the first
    change.

    Args:
        tables, layout: tables and layout.
        uses, twins: uses in groups, by tensor and by what tells layers' uses apart, see `wishes.Groups`.
        first: the state before the first decision.
        stride: decisions between saved states.
        heats: float64[N], ps by which a worse game is accepted with probability 1/e.
        seed: of the chain.
        current: int8[U], wishes where the chain begins; filled with those where it ends.
        best: int8[U], filled with the wishes of the best game, the first one included.
    """
    np.random.seed(seed)
    count = len(current)
    saved = np.empty((count // stride + 1, layout.size), dtype=np.int64)
    free, trial_free, trial = np.zeros(count, np.bool_), np.zeros(count, np.bool_), current.copy()
    state = first.copy()
    latency = _replay(tables, layout, state, current, free, saved, stride)
    best[:], best_latency = current, latency
    if not free.any():
        return best_latency
    for game in range(len(heats)):
        trial[:] = current
        begin = _move(tables, free, uses, twins, trial)
        state[:] = saved[begin // stride]
        reached = _replay(tables, layout, state, trial, trial_free, saved[:0], stride)
        if reached > latency - heats[game] * np.log(max(np.random.random(), 1e-300)):
            continue
        latency, current[:] = reached, trial
        state[:] = saved[begin // stride]
        _replay(tables, layout, state, current, free, saved, stride)
        if latency < best_latency:
            best_latency, best[:] = latency, current
    return best_latency


@kernel
def _replay(tables, layout, state, wishes, free, saved, stride):
    """Finish a state along wishes; returns its latency.

    On the way `free` is set for the decisions that had a choice, and states are saved if there is room for them.
    """
    while state[MASK] != 0:
        use, mask = state[USE], state[MASK]
        if len(saved) and use % stride == 0:
            saved[use // stride] = state
        free[use] = mask & (mask - 1) != 0
        play(tables, layout, state, grant(mask, wishes[use]))
    return state[ESTIMATE]


@kernel
def _move(tables, free, uses, twins, wishes):
    """Change wishes in place; returns the first use that changed."""
    count = len(wishes)
    begin = np.random.randint(count)
    while not free[begin]:
        begin = begin + 1 if begin + 1 < count else 0
    kind, wish = np.random.randint(10), np.random.randint(3)
    if kind < 3:
        wishes[begin] = (wishes[begin] + np.random.randint(1, 3)) % 3
    elif kind < 5:
        _assign(uses, tables.use_tensor[begin], begin, count, wish, wishes)
    elif kind < 7:
        left = np.random.randint(2, 9)
        for use in range(begin, count):
            if free[use] and tables.use_is_result[use] == tables.use_is_result[begin]:
                wishes[use] = wish
                left -= 1
                if left == 0:
                    break
    else:
        _assign(twins, twins[2][begin], begin, np.random.randint(2, 25), wish, wishes)
    return begin


@kernel
def _assign(groups, group, begin, most, wish, wishes):
    """Give up to `most` uses of a group, from `begin` on, the same wish."""
    ptr, members = groups[0], groups[1]
    place = ptr[group] + np.searchsorted(members[ptr[group] : ptr[group + 1]], begin)
    for index in range(place, min(place + most, ptr[group + 1])):
        wishes[members[index]] = wish
