"""Gain of an action without playing it: a trial needs a copy of the state, which grows with the program."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.port import backlog
from memplace_env.envs.malloc_game.rules import play, room_after
from memplace_env.envs.malloc_game.state import (
    BACKING_PS,
    COPY,
    DROP,
    FAST_PS,
    LASTING,
    NO_COPY,
    OP,
    OPEN_PS,
    PASSING,
    USE,
)
from memplace_env.envs.malloc_game.window import copy_window
from memplace_env.machine.costs.op_time_kernels import op_time


@kernel
def gain_of(tables, layout, state, action):
    """Return by how many picoseconds a legal action lowers the estimated latency, as `play` would."""
    use, op = state[USE], state[OP]
    # The last action also includes the tail, which is known only once it has been played.
    if use + 1 == len(tables.use_op):
        return play(tables, layout, state.copy(), action)
    fast, backing, moved = state[FAST_PS], state[BACKING_PS] + state[OPEN_PS], tables.use_ps[use, 1]
    # The estimate counts the current op with its undecided uses in the backing memory; Copy and NoCopy move this one.
    before = op_time(tables, op, (fast, backing))[0]
    if action != DROP:
        fast, backing = fast + tables.use_ps[use, 0], backing - moved
    after = op_time(tables, op, (fast, backing))[0]
    return before - after - _wait(tables, layout, state, action)


@kernel(forceinline=True)
def _wait(tables, layout, state, action):
    """Return how long the current op would wait because of a legal action, in ps."""
    use, op = state[USE], state[OP]
    tensor = tables.use_tensor[use]
    if tables.use_is_result[use]:
        if action == DROP:
            return np.int64(0)
        ceiling = tables.ceiling[use, LASTING if action == COPY else PASSING]
        until = room_after(layout, state, tables.size[tensor], ceiling)
        return np.int64(backlog(tables, layout, state, until))
    if action == DROP:
        if state[layout.valid_from + tensor] <= op:
            return np.int64(0)
        return np.int64(backlog(tables, layout, state, state[layout.turn + tensor] + 1))
    if action == NO_COPY or state[layout.intact + tensor] == 1:
        return np.int64(0)
    return np.int64(copy_window(tables, layout, state, tensor)[1])
