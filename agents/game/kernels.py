"""Compiled parts of the searches: games that follow wishes, and annealing over wishes.

A wish is an action for each use that may turn out illegal: then the next best legal one is played, so that every
sequence of wishes is a game, and one that had no room is granted as soon as another steps back.
"""

from __future__ import annotations

import numpy as np

from memplace_env.kernel import kernel
from memplace_env.envs.malloc_game.rules import play
from memplace_env.envs.malloc_game.state import COPY, ESTIMATE, MASK, NO_COPY, USE


@kernel
def grant(mask, wish):
    """The wish if it is legal, else fast memory rather than Drop if that is, NoCopy rather than Copy for Drop."""
    if mask >> wish & 1:
        return wish
    second = COPY if wish == NO_COPY else NO_COPY
    return second if mask >> second & 1 else 3 - wish - second


@kernel
def follow(g, at, row, wishes):
    """Finish a row along wishes int8[U]."""
    while row[MASK] != 0:
        play(g, at, row, grant(row[MASK], wishes[row[USE]]))


@kernel
def preview(g, at, rows, wishes, latency):
    """Fill `latency` int64[B] with that of each row if it is finished along wishes; rows stay as they are."""
    trial = np.empty(at.size, dtype=np.int64)
    for index in range(len(rows)):
        trial[:] = rows[index]
        follow(g, at, trial, wishes)
        latency[index] = trial[ESTIMATE]


@kernel
def anneal(g, at, uses, twins, first, stride, heats, seed, current, best):
    """One chain of simulated annealing, a game for each heat; returns the latency of its best game in ps.

    A move changes the wish of one decision that has a choice, or of all later uses of its tensor, or of a run of such
    decisions, or of the same decision in later layers; a game is replayed from the last saved state before the first
    change.

    Args:
        g, at: tables and layout.
        uses, twins: uses in groups, by tensor and by what tells layers' uses apart, see `wishes.Groups`.
        first: the row before the first decision.
        stride: decisions between saved states.
        heats: float64[N], ps by which a worse game is accepted with probability 1/e.
        seed: of the chain.
        current: int8[U], wishes where the chain begins; filled with those where it ends.
        best: int8[U], filled with the wishes of the best game, the first one included.
    """
    np.random.seed(seed)
    count = len(current)
    saved = np.empty((count // stride + 1, at.size), dtype=np.int64)
    free, trial_free, trial = np.zeros(count, np.bool_), np.zeros(count, np.bool_), current.copy()
    row = first.copy()
    latency = _replay(g, at, row, current, free, saved, stride)
    best[:], best_latency = current, latency
    if not free.any():
        return best_latency
    for game in range(len(heats)):
        trial[:] = current
        begin = _move(g, free, uses, twins, trial)
        row[:] = saved[begin // stride]
        reached = _replay(g, at, row, trial, trial_free, saved[:0], stride)
        if reached > latency - heats[game] * np.log(max(np.random.random(), 1e-300)):
            continue
        latency, current[:] = reached, trial
        row[:] = saved[begin // stride]
        _replay(g, at, row, current, free, saved, stride)
        if latency < best_latency:
            best_latency, best[:] = latency, current
    return best_latency


@kernel
def _replay(g, at, row, wishes, free, saved, stride):
    """Finish a row along wishes; returns its latency.

    On the way `free` is set for the decisions that had a choice, and states are saved if there is room for them.
    """
    while row[MASK] != 0:
        use, mask = row[USE], row[MASK]
        if len(saved) and use % stride == 0:
            saved[use // stride] = row
        free[use] = mask & (mask - 1) != 0
        play(g, at, row, grant(mask, wishes[use]))
    return row[ESTIMATE]


@kernel
def _move(g, free, uses, twins, wishes):
    """Change wishes in place; returns the first use that changed."""
    count = len(wishes)
    begin = np.random.randint(count)
    while not free[begin]:
        begin = begin + 1 if begin + 1 < count else 0
    kind, wish = np.random.randint(10), np.random.randint(3)
    if kind < 3:
        wishes[begin] = (wishes[begin] + np.random.randint(1, 3)) % 3
    elif kind < 5:
        _assign(uses, g.use_tensor[begin], begin, count, wish, wishes)
    elif kind < 7:
        left = np.random.randint(2, 9)
        for use in range(begin, count):
            if free[use] and g.use_is_result[use] == g.use_is_result[begin]:
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
