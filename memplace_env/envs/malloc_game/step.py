"""Observations of states, and a move together with the observation after it, as compiled functions."""

from __future__ import annotations

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.observation import (
    AHEAD,
    AHEAD_BACKED,
    AHEAD_DISTANCE,
    AHEAD_INTACT,
    AHEAD_IS_RESULT,
    AHEAD_LOG_SIZE,
    AHEAD_SIZE,
    BACKED,
    BINS,
    COPY_COST,
    FIRST_KIND,
    INTACT,
    IS_RESULT,
    LOG_SIZE,
    NEW_OFFSET,
    NEXT_USE,
    PENDING,
    SAVES,
    SIZE,
    STATIC,
    USES_LEFT,
    WAIT,
    WINDOW_AHEAD,
)
from memplace_env.envs.malloc_game.occupancy import before_move, update_profile
from memplace_env.envs.malloc_game.port import backlog, is_pending
from memplace_env.envs.malloc_game.rules import play_nearest, preview
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, OP, QUEUE_HEAD, QUEUE_TAIL, STALL_PS, TAIL_PS, USE


@kernel
def step_all(tables, layout, states, actions, gains, played, profiles, unchanging, into):
    """Play one decision in each state as `rules.play_all` does, and fill `into` with the observations after it.

    Args:
        tables, layout, states, actions, gains, played: as for `rules.play_all`.
        profiles: uint8[B, 2, 64, 64], those of the states before; brought up to date.
        unchanging: parts of observations that never change during a game.
        into: the observations to fill.
    """
    for index in range(len(states)):
        state = states[index]
        before = before_move(tables, layout, state)
        gains[index], played[index] = play_nearest(tables, layout, state, actions[index])
        update_profile(tables, layout, state, before, profiles[index])
        into.profile[index] = profiles[index]
    observe_all(tables, layout, states, unchanging, into)


@kernel
def observe_all(tables, layout, states, unchanging, into):
    """Fill all observations `into` but the profiles."""
    for index in range(len(states)):
        state = states[index]
        _fill_bandwidth(tables, layout, state, into.bandwidth[index])
        _fill_lookahead(tables, layout, state, unchanging.features, into.lookahead[index])
        _fill_tensor(tables, layout, state, unchanging, into.tensor[index])
        _fill_progress(tables, layout, state, into.progress[index])
        for action in range(3):
            into.action_mask[index, action] = state[MASK] >> action & 1


@kernel
def _fill_progress(tables, layout, state, into):
    """Fill float32[6], columns `PROGRESS`."""
    pending = state[QUEUE_TAIL] - state[QUEUE_HEAD]
    over = state[OP] == len(tables.compute_ps)
    owed = state[TAIL_PS] if over else backlog(tables, layout, state, state[QUEUE_TAIL])
    into[0] = state[USE] / len(tables.use_op)
    into[1] = min(max(state[ESTIMATE] / tables.rest_ps[0], 0.0), 1.0)
    into[2] = state[OP] / len(tables.compute_ps)
    into[3] = state[STALL_PS] / max(state[ESTIMATE], 1)
    into[4] = min(pending / 8, 1.0)
    into[5] = _beside_an_op(tables, owed)


@kernel
def _beside_an_op(tables, time):
    """Return a time as t / (t + mean op time with everything in the backing memory)."""
    return time / max(time + tables.rest_ps[0] / len(tables.compute_ps), 1.0)


@kernel
def _fill_bandwidth(tables, layout, state, into):
    """Fill float32[64], free port time of the last 64 ops over their time with everything in the backing memory."""
    now = min(state[OP], len(tables.compute_ps) - 1)
    # The last column is the current op; ops before the first, and those not final, show 0.
    for column in range(BINS):
        op = now - BINS + 1 + column
        into[column] = 0.0
        if 0 <= op < state[OP]:
            whole = max(tables.rest_ps[op] - tables.rest_ps[op + 1], 1)
            into[column] = min(state[layout.free + op] / whole, 1.0)


@kernel
def _fill_lookahead(tables, layout, state, features, into):
    """Fill float32[32, 12], columns `LOOKAHEAD`, of the current decision and those after it."""
    op = state[OP]
    # `features` has AHEAD rows of zeros after the last use, so that `use` may run past the end.
    for step in range(AHEAD):
        use = state[USE] + step
        for column in range(STATIC):
            into[step, column] = features[use, column]
        into[step, AHEAD_INTACT] = 0.0
        into[step, AHEAD_BACKED] = 0.0
        if use < len(tables.use_op):
            tensor = tables.use_tensor[use]
            # The column holds the op's number; up to 2**24 a float32 holds it exactly.
            into[step, AHEAD_DISTANCE] = min((features[use, AHEAD_DISTANCE] - op) / BINS, 1.0)
            into[step, AHEAD_INTACT] = state[layout.intact + tensor]
            into[step, AHEAD_BACKED] = state[layout.valid_from + tensor] <= op


@kernel
def _fill_tensor(tables, layout, state, unchanging, into):
    """Fill float32[17], columns `TENSOR`, of the tensor that the current decision is about."""
    use, op = state[USE], state[OP]
    into[:] = 0.0
    if use == len(tables.use_op):
        return
    tensor, features, following = tables.use_tensor[use], unchanging.features[use], unchanging.following[use]
    into[SIZE] = features[AHEAD_SIZE]
    into[LOG_SIZE] = features[AHEAD_LOG_SIZE]
    into[FIRST_KIND + unchanging.kind[tensor]] = 1.0
    into[IS_RESULT] = features[AHEAD_IS_RESULT]
    into[INTACT] = state[layout.intact + tensor]
    into[PENDING] = is_pending(layout, state, tensor)
    into[BACKED] = state[layout.valid_from + tensor] <= op
    into[USES_LEFT] = min(following[1] / 8, 1.0)
    into[NEXT_USE] = min((following[0] - op) / BINS, 1.0)
    copy = tables.writeback_ps[tensor] if tables.is_result[tensor] else tables.prefetch_ps[tensor]
    into[COPY_COST] = _beside_an_op(tables, copy)
    whole = max(tables.rest_ps[op] - tables.rest_ps[op + 1], 1)
    # Serving the use fast frees the backing port, but takes the fast one's time if ports are serial; compute and
    # overhead bound what can be saved.
    saved = tables.use_ps[use, 1] - (tables.use_ps[use, 0] if tables.serial else 0)
    into[SAVES] = min(max(min(saved, whole - tables.compute_ps[op] - tables.overhead_ps[op]) / whole, 0.0), 1.0)
    start, offset, wait = preview(tables, layout, state)
    into[WAIT] = _beside_an_op(tables, wait)
    if offset >= 0:
        into[WINDOW_AHEAD] = min((op - start) / BINS, 1.0)
        into[NEW_OFFSET] = offset / tables.capacity
