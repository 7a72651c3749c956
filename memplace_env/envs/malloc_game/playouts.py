"""Whole games by one call, and the gain of an action without playing it."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.port import backlog
from memplace_env.envs.malloc_game.rules import begin, is_forced, lazy_action, play, play_nearest, room_after
from memplace_env.envs.malloc_game.state import (
    BACKING_PS,
    COPY,
    DROP,
    FAST_PS,
    LASTING,
    MASK,
    NO_COPY,
    OP,
    OPEN_PS,
    PASSING,
    USE,
)
from memplace_env.envs.malloc_game.window import copy_window
from memplace_env.machine.costs.op_time_kernels import op_time


@kernel(borrows=True)
def random_playouts(tables, layout, states, seed):
    """Finish each state with uniformly random legal actions; state b draws from its own stream, `seed + b`."""
    for index in range(len(states)):
        np.random.seed(seed + index)
        state = states[index]
        # Rejection: each pass draws one of the three actions, until a legal one is played.
        while state[MASK] != 0:
            action = np.random.randint(3)
            if state[MASK] >> action & 1:
                play(tables, layout, state, action)


@kernel(borrows=True)
def greedy_playouts(tables, layout, states):
    """Finish each state with the actions of best immediate gain; ties go to NoCopy, then Copy, then Drop."""
    for index in range(len(states)):
        state = states[index]
        while state[MASK] != 0:  # 0 once the game is over
            best, best_gain = -1, np.int64(0)
            for action in (NO_COPY, COPY, DROP):
                if state[MASK] >> action & 1:
                    gain = gain_of(tables, layout, state, action)
                    if best < 0 or gain > best_gain:
                        best, best_gain = action, gain
            play(tables, layout, state, best)


@kernel(borrows=True)
def lazy_playout(tables, layout, state):
    """Finish a state with Drop if it is legal and waits for nothing, else NoCopy, else Copy."""
    while state[MASK] != 0:
        play(tables, layout, state, lazy_action(tables, layout, state))


@kernel(borrows=True)
def play_forced(tables, layout, state):
    """Play decisions as long as they have a single legal action, but not the last decision of the game."""
    while state[USE] + 1 < len(tables.use_op) and is_forced(state):
        play(tables, layout, state, state[MASK] >> 1)  # of the masks 1, 2, 4 the actions 0, 1, 2


@kernel(borrows=True)
def replay_all(tables, layout, states, actions):
    """Play action sequences int[B, U] from each state's present decision on, and write back the actions played.

    `actions[b, u]` is for use u; illegal ones are replaced as by `play_nearest`, so any change of a sequence replays.
    """
    for index in range(len(states)):
        state = states[index]
        while state[MASK] != 0:
            use = state[USE]
            _, actions[index, use] = play_nearest(tables, layout, state, actions[index, use])


@kernel
def is_reached(tables, layout, target):
    """Return whether legal play leads to a state int64[size] of any content: its decisions are played again.

    They can be read off it: Drop from a use's level; Copy from a write-back that starts in the next op, or from NoCopy
    being illegal.
    """
    decided = target[USE]
    if not 0 <= decided <= len(tables.use_op):
        return False
    state = np.empty_like(target)
    begin(tables, layout, state)
    # Invariant: legal play leads to `state`, and if it leads to `target`, then by way of `state`.
    while state[USE] < decided:
        use = state[USE]
        tensor = tables.use_tensor[use]
        if target[layout.level + use] != 0:
            action = DROP
        elif state[MASK] >> NO_COPY & 1 and target[layout.sent + tensor] != state[OP] + 1:
            action = NO_COPY
        else:
            action = COPY
        if not state[MASK] >> action & 1:
            return False
        play(tables, layout, state, action)
    return (state == target).all()


@kernel
def gain_of(tables, layout, state, action):
    """Return by how many picoseconds a legal action lowers the estimated latency, as `play` would."""
    use, op = state[USE], state[OP]
    # The last action also includes the tail, which is known only once it has been played.
    if use + 1 == len(tables.use_op):
        return play(tables, layout, state.copy(), action)
    fast, backing, moved = state[FAST_PS], state[BACKING_PS] + state[OPEN_PS], tables.costs.use_ps[use, 1]
    # The estimate counts the current op with its undecided uses in the backing memory; Copy and NoCopy move this one.
    before = op_time(tables.costs, op, (fast, backing))[0]
    if action != DROP:
        fast, backing = fast + tables.costs.use_ps[use, 0], backing - moved
    after = op_time(tables.costs, op, (fast, backing))[0]
    return before - after - _wait(tables, layout, state, action)


@kernel(borrows=True, forceinline=True)
def _wait(tables, layout, state, action):
    """Return how long the current op would wait because of a legal action, in ps."""
    use, op = state[USE], state[OP]
    tensor = tables.use_tensor[use]
    if tables.use_is_result[use]:
        if action == DROP:
            return np.int64(0)
        ceiling = tables.room[use, LASTING if action == COPY else PASSING]
        until = room_after(tables, layout, state, tables.size[tensor], ceiling)
        return np.int64(backlog(tables, layout, state, until))
    if action == DROP:
        if state[layout.valid_from + tensor] <= op:
            return np.int64(0)
        return np.int64(backlog(tables, layout, state, state[layout.turn + tensor] + 1))
    if action == NO_COPY or state[layout.intact + tensor] == 1:
        return np.int64(0)
    return np.int64(copy_window(tables, layout, state, tensor)[1])
