"""Compiled parts of the searches: games that follow preferences, and annealing over preferences.

A preference is one action for each use, legal or not: where it is illegal the next best legal action is played. So
every array of preferences is a game, and a preference that had no room takes effect as soon as another tensor leaves.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.rules import play
from memplace_env.envs.malloc_game.state import COPY, ESTIMATE, MASK, NO_COPY, USE


@kernel(borrows=True)
def nearest_legal(mask, preferred):
    """Return the preferred action if it is legal, else the nearest one that is.

    Copy and NoCopy stand in for each other before Drop; for Drop, NoCopy comes before Copy. Bit a of `mask` is set if
    action a is legal.
    """
    if mask >> preferred & 1:
        return preferred
    second = COPY if preferred == NO_COPY else NO_COPY
    # The actions are 0, 1 and 2, so the third one is what is missing to their sum.
    return second if mask >> second & 1 else 3 - preferred - second


@kernel(borrows=True)
def follow(tables, layout, state, preferences):
    """Finish a state along preferences int8[U]."""
    # The mask of a finished game is 0.
    while state[MASK] != 0:
        play(tables, layout, state, nearest_legal(state[MASK], preferences[state[USE]]))


@kernel
def anneal(tables, layout, uses, twins, first, stride, heats, seed, current, best, guide=None, guided=0.0):
    """Run one chain of simulated annealing, one game for each heat; return the latency of its best game in ps.

    A move changes the preference of one decision that has a choice, or of all later uses of its tensor, or of a run of
    such decisions, or of the same decision in later layers. A game is replayed from the last saved state before the
    first change.

    With a guide a fraction of the moves begins at a decision drawn in proportion to the probability that a policy would
    decide otherwise, with an action that it draws there.

    Args:
        tables, layout: constants of the game and positions in its state, see `MallocGameProblem`.
        uses, twins: uses in groups, by tensor and by role in a layer, see `preferences.Groups`.
        first: the state before the first decision.
        stride: number of decisions between saved states.
        heats: float64[N], ps by which a worse game is accepted with probability 1/e.
        seed: seed of the chain.
        current: int8[U], preferences where the chain begins; filled with those where it ends.
        best: int8[U], filled with the preferences of the best game, the first one included.
        guide: float32[U, 3], a policy's probabilities along the first game, all 0 for decisions without a choice; None
            for no policy.
        guided: fraction of moves that the guide proposes.
    """
    np.random.seed(seed)
    count = len(current)
    # doubts[use] is the sum up to `use` of the probabilities that the guide decides otherwise than the first game.
    doubts = np.zeros(count)
    if guide is not None:
        for use in range(count):
            doubts[use] = guide[use].sum() - guide[use, current[use]]
        doubts = np.cumsum(np.maximum(doubts, 0.0))
    # saved[i] is the state before use i * stride in the game of `current`, free[use] is True where it had a choice.
    # Rejected trials write to trial_free and save nothing, so that both always belong to `current`.
    saved = np.empty((count // stride + 1, layout.size), dtype=np.int64)
    free, trial_free, trial = np.zeros(count, np.bool_), np.zeros(count, np.bool_), current.copy()
    state = first.copy()
    latency = _replay(tables, layout, state, current, free, saved, stride)
    best[:], best_latency = current, latency
    if not free.any():
        return best_latency
    # Invariant: `latency` is that of `current`, `best_latency` that of `best`.
    for game in range(len(heats)):
        trial[:] = current
        begin, action = np.random.randint(count), -1
        if guide is not None and np.random.random() < guided and doubts[-1] > 0:
            begin = min(np.searchsorted(doubts, np.random.random() * doubts[-1]), count - 1)
            action = _other_action(guide[begin], current[begin])
        begin = _move(tables, free, uses, twins, begin, action, trial)
        # Up to use `begin` the two games agree, so the replay starts at the saved state just before it.
        state[:] = saved[begin // stride]
        reached = _replay(tables, layout, state, trial, trial_free, saved[:0], stride)
        # Metropolis: accept an increase d with probability exp(-d / heat); 1e-300 keeps the logarithm finite.
        if reached > latency - heats[game] * np.log(max(np.random.random(), 1e-300)):
            continue
        # Accepted: play it again, this time saving the states and the choices on the way.
        latency, current[:] = reached, trial
        state[:] = saved[begin // stride]
        _replay(tables, layout, state, current, free, saved, stride)
        if latency < best_latency:
            best_latency, best[:] = latency, current
    return best_latency


@kernel
def _replay(tables, layout, state, preferences, free, saved, stride):
    """Finish a state along the preferences and return its latency in ps.

    On the way `free` is set for the decisions that had a choice, and states are saved unless `saved` is empty.
    """
    while state[MASK] != 0:
        use, mask = state[USE], state[MASK]
        if len(saved) and use % stride == 0:
            saved[use // stride] = state
        # Clearing the lowest set bit leaves something iff at least two actions are legal.
        free[use] = mask & (mask - 1) != 0
        play(tables, layout, state, nearest_legal(mask, preferences[use]))
    return state[ESTIMATE]


@kernel
def _other_action(probabilities, present):
    """Draw an action other than the present one in proportion to probabilities float32[3]."""
    total = probabilities.sum() - probabilities[present]
    left = np.random.random() * total
    for action in range(3):
        if action != present:
            left -= probabilities[action]
            if left <= 0:
                return action
    return (present + 1) % 3  # what rounding leaves


@kernel
def _move(tables, free, uses, twins, begin, action, preferences):
    """Change preferences in place, from use `begin` on, and return the first use that may have changed.

    The action is drawn if it is -1.
    """
    count = len(preferences)
    # The first decision with a choice from `begin` on, going round at the end; there is one.
    while not free[begin]:
        begin = begin + 1 if begin + 1 < count else 0
    # The shares of the four kinds of moves, 3:2:2:3, and their lengths are our choice, from trials on the zoo.
    kind, drawn = np.random.randint(10), np.random.randint(3)
    proposed = action >= 0
    action = action if proposed else drawn
    if kind < 3:
        # One decision, to the proposed action or one of the two others.
        preferences[begin] = action if proposed else (preferences[begin] + np.random.randint(1, 3)) % 3
    elif kind < 5:
        # All uses of its tensor from here on.
        _assign(uses, tables.use_tensor[begin], begin, count, action, preferences)
    elif kind < 7:
        # The next 2 to 8 decisions with a choice that are operands, or results, as it is.
        left = np.random.randint(2, 9)
        for use in range(begin, count):
            if free[use] and tables.use_is_result[use] == tables.use_is_result[begin]:
                preferences[use] = action
                left -= 1
                if left == 0:
                    break
    else:
        # The same decision in the next 2 to 24 layers.
        _assign(twins, twins[2][begin], begin, np.random.randint(2, 25), action, preferences)
    return begin


@kernel
def _assign(groups, group, begin, most, action, preferences):
    """Give up to `most` uses of a group, from use `begin` on, the same preferred action."""
    ptr, members = groups[0], groups[1]
    # Members of a group are in order, so the first one from `begin` on is found by bisection.
    start = ptr[group] + np.searchsorted(members[ptr[group] : ptr[group + 1]], begin)
    for index in range(start, min(start + most, ptr[group + 1])):
        preferences[members[index]] = action
