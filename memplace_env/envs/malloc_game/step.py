"""What is seen of states, and of a move and the state after it, as compiled functions."""

from __future__ import annotations

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
from memplace_env.envs.malloc_game.port import backlog, is_pending
from memplace_env.envs.malloc_game.profile import before_move, update_profile
from memplace_env.envs.malloc_game.rules import play_nearest, preview
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, OP, QUEUE_HEAD, QUEUE_TAIL, STALL_PS, TAIL_PS, USE
from memplace_env.kernel import kernel


@kernel
def step_all(tables, layout, states, actions, gains, played, profiles, unchanging, seen):
    """Play one decision in each state as `rules.play_all` does, and fill the observations `seen` of the states after.

    `profiles` uint8[B, 2, 64, 64] are those of the states before, and are brought up to date.
    """
    for index in range(len(states)):
        state = states[index]
        before = before_move(tables, layout, state)
        gains[index], played[index] = play_nearest(tables, layout, state, actions[index])
        update_profile(tables, layout, state, before, profiles[index])
        seen.profile[index] = profiles[index]
    observe_all(tables, layout, states, unchanging, seen)


@kernel
def observe_all(tables, layout, states, unchanging, seen):
    """Fill all of the observations `seen` but the profiles."""
    for index in range(len(states)):
        state = states[index]
        _see_bandwidth(tables, layout, state, seen.bandwidth[index])
        _see_lookahead(tables, layout, state, unchanging.features, seen.lookahead[index])
        _see_tensor(tables, layout, state, unchanging, seen.tensor[index])
        _see_progress(tables, layout, state, seen.progress[index])
        for action in range(3):
            seen.action_mask[index, action] = state[MASK] >> action & 1


@kernel
def _see_progress(tables, layout, state, seen):
    pending = state[QUEUE_TAIL] - state[QUEUE_HEAD]
    over = state[OP] == len(tables.compute_ps)
    owed = state[TAIL_PS] if over else backlog(tables, layout, state, state[QUEUE_TAIL])
    seen[0] = state[USE] / len(tables.use_op)
    seen[1] = min(max(state[ESTIMATE] / tables.rest_ps[0], 0.0), 1.0)
    seen[2] = state[OP] / len(tables.compute_ps)
    seen[3] = state[STALL_PS] / max(state[ESTIMATE], 1)
    seen[4] = min(pending / 8, 1.0)
    seen[5] = _beside_an_op(tables, owed)


@kernel
def _beside_an_op(tables, time):
    """A time as t / (t + mean op time)."""
    return time / max(time + tables.rest_ps[0] / len(tables.compute_ps), 1.0)


@kernel
def _see_bandwidth(tables, layout, state, seen):
    now = min(state[OP], len(tables.compute_ps) - 1)
    for column in range(BINS):
        op = now - BINS + 1 + column
        seen[column] = 0.0
        if 0 <= op < state[OP]:
            whole = max(tables.rest_ps[op] - tables.rest_ps[op + 1], 1)
            seen[column] = min(state[layout.free + op] / whole, 1.0)


@kernel
def _see_lookahead(tables, layout, state, features, seen):
    op = state[OP]
    for step in range(AHEAD):
        use = state[USE] + step
        for column in range(STATIC):
            seen[step, column] = features[use, column]
        seen[step, AHEAD_INTACT] = 0.0
        seen[step, AHEAD_BACKED] = 0.0
        if use < len(tables.use_op):
            tensor = tables.use_tensor[use]
            seen[step, AHEAD_DISTANCE] = min((features[use, AHEAD_DISTANCE] - op) / BINS, 1.0)
            seen[step, AHEAD_INTACT] = state[layout.intact + tensor]
            seen[step, AHEAD_BACKED] = state[layout.valid_from + tensor] <= op


@kernel
def _see_tensor(tables, layout, state, unchanging, seen):
    use, op = state[USE], state[OP]
    seen[:] = 0.0
    if use == len(tables.use_op):
        return
    tensor, features, following = tables.use_tensor[use], unchanging.features[use], unchanging.following[use]
    seen[SIZE] = features[AHEAD_SIZE]
    seen[LOG_SIZE] = features[AHEAD_LOG_SIZE]
    seen[FIRST_KIND + unchanging.kind[tensor]] = 1.0
    seen[IS_RESULT] = features[AHEAD_IS_RESULT]
    seen[INTACT] = state[layout.intact + tensor]
    seen[PENDING] = is_pending(layout, state, tensor)
    seen[BACKED] = state[layout.valid_from + tensor] <= op
    seen[USES_LEFT] = min(following[1] / 8, 1.0)
    seen[NEXT_USE] = min((following[0] - op) / BINS, 1.0)
    copy = tables.writeback_ps[tensor] if tables.made[tensor] else tables.prefetch_ps[tensor]
    seen[COPY_COST] = _beside_an_op(tables, copy)
    whole = max(tables.rest_ps[op] - tables.rest_ps[op + 1], 1)
    saved = tables.use_ps[use, 1] - (tables.use_ps[use, 0] if tables.serial else 0)
    seen[SAVES] = min(max(min(saved, whole - tables.compute_ps[op] - tables.overhead_ps[op]) / whole, 0.0), 1.0)
    start, offset, wait = preview(tables, layout, state)
    seen[WAIT] = _beside_an_op(tables, wait)
    if offset >= 0:
        seen[WINDOW_AHEAD] = min((op - start) / BINS, 1.0)
        seen[NEW_OFFSET] = offset / tables.capacity
