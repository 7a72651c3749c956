"""Parts of an observation, filled from a state by compiled functions."""

from __future__ import annotations

import numpy as np

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
from memplace_env.envs.malloc_game.port import backlog, is_pending
from memplace_env.envs.malloc_game.rules import preview
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, OP, QUEUE_HEAD, QUEUE_TAIL, STALL_PS, TAIL_PS, USE


@kernel(borrows=True, forceinline=True, error_model="numpy")
def fill_progress(tables, layout, state, into):
    """Fill float32[6], columns `PROGRESS`."""
    pending = state[QUEUE_TAIL] - state[QUEUE_HEAD]
    over = state[OP] == len(tables.costs.compute_ps)
    owed = state[TAIL_PS] if over else backlog(tables, layout, state, state[QUEUE_TAIL])
    into[0] = state[USE] / len(tables.use_op)
    into[1] = min(max(state[ESTIMATE] / tables.rest_ps[0], 0.0), 1.0)
    into[2] = state[OP] / len(tables.costs.compute_ps)
    into[3] = state[STALL_PS] / max(state[ESTIMATE], 1)
    into[4] = min(pending / 8, 1.0)
    into[5] = _beside_an_op(tables, owed)


@kernel(borrows=True, forceinline=True, error_model="numpy")
def _beside_an_op(tables, time):
    """Return a time as t / (t + mean op time with everything in the backing memory)."""
    return time / max(time + tables.rest_ps[0] / len(tables.costs.compute_ps), 1.0)


@kernel(borrows=True, forceinline=True, error_model="numpy")
def fill_bandwidth(tables, layout, state, into):
    """Fill float32[n], free port time of the last 64 ops over their time with everything in the backing memory.

    n is 64, or a divisor of it; then a number is the mean of several ops.
    """
    final, span = state[OP], BINS // len(into)
    # The last number covers the current op; ops before the first, and those not final, count as 0.
    first_op = min(final, len(tables.costs.compute_ps) - 1) - BINS + 1
    for column in range(len(into)):
        total = np.float32(0)
        for op in range(max(first_op + column * span, 0), min(first_op + (column + 1) * span, final)):
            whole = max(tables.rest_ps[op] - tables.rest_ps[op + 1], 1)
            total += np.float32(min(state[layout.free + op] / whole, 1.0))
        into[column] = min(total / span, 1.0)


@kernel(borrows=True, forceinline=True, error_model="numpy")
def fill_mask(state, into):
    """Fill `into`, one number for each action, with 1 for legal ones and 0 for others."""
    for action in range(len(into)):
        into[action] = state[MASK] >> action & 1


@kernel(borrows=True, forceinline=True, error_model="numpy")
def fill_lookahead(tables, layout, state, features, into):
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


@kernel(borrows=True, forceinline=True, error_model="numpy")
def fill_tensor(tables, layout, state, unchanging, into):
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
    costs = tables.costs
    copy_ps = costs.writeback_ps[tensor] if tables.is_result[tensor] else costs.prefetch_ps[tensor]
    into[COPY_COST] = _beside_an_op(tables, copy_ps)
    whole = max(tables.rest_ps[op] - tables.rest_ps[op + 1], 1)
    # Serving the use fast frees the backing port, but takes the fast one's time if ports are serial; compute and
    # overhead bound what can be saved.
    saved = costs.use_ps[use, 1] - (costs.use_ps[use, 0] if costs.serial else 0)
    into[SAVES] = min(max(min(saved, whole - costs.compute_ps[op] - costs.overhead_ps[op]) / whole, 0.0), 1.0)
    start, offset, wait = preview(tables, layout, state)
    into[WAIT] = _beside_an_op(tables, wait)
    if offset >= 0:
        into[WINDOW_AHEAD] = min((op - start) / BINS, 1.0)
        into[NEW_OFFSET] = offset / tables.capacity
