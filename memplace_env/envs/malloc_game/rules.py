"""The rules of mallocGame as compiled functions of its states; nothing here knows Gymnasium.

The game follows the description of mallocMuZero (arXiv 2305.07440) as far as it is public; where it is silent the
rule is ours. Alias groups and the drop-backup of the paper have no counterpart: views share one tensor, and
protection of data that exists nowhere else removes dead ends.

Decisions are the uses, op by op, an op's operands before its results. Copy brings an operand in, or sends the block
of data that exists nowhere else back to the backing memory while it is used or made; NoCopy uses or makes a block and
no more; Drop reads from or writes to the backing memory. A block is protected while its data exists nowhere else and
is still needed, or while it is being sent back; then it is cached: usable until its space is taken.

An op waits for a copy that comes in late (`window`), and for write-backs that must have ended before it: those of an
operand that Drop reads, and those whose blocks a result needs the room of (`port`). `room` decides where blocks go.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.port import (
    backlog,
    book,
    end_write_backs,
    finish_write_backs,
    is_pending,
    send_back,
    stall,
    wait_for,
    waitable,
)
from memplace_env.envs.malloc_game.room import (
    ceiling_from,
    fit,
    given_block,
    has_room,
    place,
    place_of_result,
    retire,
    revive,
)
from memplace_env.envs.malloc_game.state import (  # fmt: skip
    BACKING_PS,
    COPY,
    DROP,
    ESTIMATE,
    FAST_PS,
    FINAL_PS,
    LASTING,
    MASK,
    NEVER,
    NO_COPY,
    OP,
    OPEN_PS,
    PASSING,
    QUEUE_HEAD,
    STALL_PS,
    TAIL_PS,
    USE,
)
from memplace_env.envs.malloc_game.window import copy_window, earliest_copy
from memplace_env.machine.costs.op_time_kernels import op_time


@kernel(borrows=True)
def begin(tables, layout, state):
    """Write the first state into `state`."""
    state[:] = 0
    # Sections are adjacent: `block` alone, then `turn`, `sent` and `drained` in one.
    state[layout.block : layout.intact] = -1
    state[layout.turn : layout.queue] = -1
    for tensor in range(len(tables.size)):
        state[layout.valid_from + tensor] = NEVER if tables.is_result[tensor] else 0
    _open_op(tables, state, 0)
    _close_full_ops(tables, layout, state)
    state[ESTIMATE] = _estimate(tables, state)
    _find_legal(tables, layout, state)


@kernel(borrows=True)
def play(tables, layout, state, action):
    """Play a legal action; returns by how many picoseconds it lowers the estimated latency."""
    use = state[USE]
    # Drop serves the use at level 1, the backing memory.
    tensor, level = tables.use_tensor[use], np.int64(action == DROP)
    if tables.use_is_result[use]:
        _make(tables, layout, state, tensor, action)
    else:
        _read(tables, layout, state, tensor, action)
    if level == 0:
        _commit(tables, layout, state, tensor)
    state[layout.level + use] = level
    state[FAST_PS + level] += tables.costs.use_ps[use, level]  # FAST_PS or, one field on, BACKING_PS
    state[OPEN_PS] -= tables.costs.use_ps[use, 1]
    state[USE] = use + 1
    _close_full_ops(tables, layout, state)
    estimate = _estimate(tables, state)
    gain = state[ESTIMATE] - estimate
    state[ESTIMATE] = estimate
    _find_legal(tables, layout, state)
    return gain


@kernel(borrows=True, forceinline=True)
def _make(tables, layout, state, tensor, action):
    """The current op makes a result."""
    op, size = state[OP], tables.size[tensor]
    if action == DROP:
        state[layout.valid_from + tensor] = op + 1
        return
    ceiling = tables.room[state[USE], LASTING if action == COPY else PASSING]
    offset, given = place_of_result(tables, layout, state, size, ceiling, 0)
    if offset < 0:
        wait_for(tables, layout, state, room_after(tables, layout, state, size, ceiling))
        offset, given = place_of_result(tables, layout, state, size, ceiling, 0)
    place(tables, layout, state, tensor, op, offset)
    if given >= 0:
        state[layout.arrived + state[layout.block + tensor]] = -2 - given
    if action == COPY:
        send_back(layout, state, tensor)


@kernel(borrows=True, forceinline=True)
def _read(tables, layout, state, tensor, action):
    """The current op reads an operand."""
    op = state[OP]
    if action == DROP:
        if state[layout.valid_from + tensor] > op:  # legal only while its write-back is pending
            wait_for(tables, layout, state, state[layout.turn + tensor] + 1)
        if state[layout.intact + tensor] == 1 and tables.last_use[tensor] == state[USE]:
            block = state[layout.block + tensor]
            state[layout.live_until + block] = state[layout.committed_until + block]
    elif state[layout.intact + tensor] == 1:
        block = state[layout.block + tensor]
        if state[layout.committed_until + block] < op - 1:  # then `retire` has moved it to `past`
            revive(layout, state, block)
        if action == COPY:
            send_back(layout, state, tensor)
    else:
        start, wait = copy_window(tables, layout, state, tensor)
        ceiling = ceiling_from(tables, state[USE], start)
        offset = fit(layout, state, tables.size[tensor], ceiling, start, 0)
        place(tables, layout, state, tensor, start, offset)
        state[layout.arrived + state[layout.block + tensor]] = op - 1
        book(layout, state, start, op, tables.costs.prefetch_ps[tensor])
        stall(layout, state, wait)


@kernel(borrows=True, forceinline=True)
def _commit(tables, layout, state, tensor):
    """Note that the current op uses the tensor's block: how long that is needed, and how long it may be live."""
    op, block, later = state[OP], state[layout.block + tensor], tables.last_use[tensor] > state[USE]
    state[layout.used + tensor] = op
    # Protected: on its way back, or the only copy of data that has uses left.
    if is_pending(layout, state, tensor) or (later and state[layout.valid_from + tensor] == NEVER):
        state[layout.committed_until + block] = state[layout.released + block] = NEVER
    else:
        state[layout.committed_until + block] = op
        state[layout.released + block] = min(state[layout.released + block], op)
    state[layout.live_until + block] = tables.last_op[tensor] if later else state[layout.committed_until + block]


@kernel(borrows=True, forceinline=True)
def room_after(tables, layout, state, size, ceiling):
    """Return the index in the queue before which write-backs must end for a result to find room; 0 if none must."""
    until = 0
    # One more write-back per pass, oldest first; ends since the action is legal only if `waitable` ones suffice.
    while (
        not has_room(layout, state, size, ceiling, state[OP], until)
        and given_block(tables, layout, state, ceiling, until) < 0
    ):
        until = max(until, state[QUEUE_HEAD]) + 1
    return until


@kernel(borrows=True, forceinline=True)
def preview(tables, layout, state):
    """Return (first op, offset, wait in ps) of the block that the current decision would place.

    First op and offset are -1 if no action places a block. The wait is that of the actions that place one, else that of
    Drop, 0 if that is illegal. Where later ops' reserved bytes make Copy place a result elsewhere than NoCopy, they are
    NoCopy's. The game must not be over.
    """
    use, op = state[USE], state[OP]
    tensor = tables.use_tensor[use]
    size, none = tables.size[tensor], np.int64(-1)
    if tables.use_is_result[use]:
        if state[MASK] == 1 << DROP:
            return none, none, np.int64(0)
        until, ceiling = np.int64(0), tables.room[use, PASSING]
        offset, _ = place_of_result(tables, layout, state, size, ceiling, until)
        if offset < 0:
            until = room_after(tables, layout, state, size, ceiling)
            offset, _ = place_of_result(tables, layout, state, size, ceiling, until)
        return op, offset, np.int64(backlog(tables, layout, state, until))
    if state[layout.intact + tensor] == 1:
        waits = state[layout.valid_from + tensor] > op and state[MASK] >> DROP & 1
        until = state[layout.turn + tensor] + 1 if waits else np.int64(0)
        return none, none, np.int64(backlog(tables, layout, state, until))
    if state[MASK] >> COPY & 1 == 0:
        return none, none, np.int64(0)
    start, wait = copy_window(tables, layout, state, tensor)
    offset = fit(layout, state, size, ceiling_from(tables, use, start), start, 0)
    return np.int64(start), offset, np.int64(wait)


@kernel(borrows=True, forceinline=True)
def lazy_action(tables, layout, state):
    """Return Drop if it is legal and waits for nothing, else NoCopy, else Copy; -1 once the game is over."""
    if state[MASK] == 0:
        return -1
    use = state[USE]
    if tables.use_is_result[use] or state[layout.valid_from + tables.use_tensor[use]] <= state[OP]:
        return DROP
    return NO_COPY if state[MASK] >> NO_COPY & 1 else COPY


@kernel(borrows=True, forceinline=True)
def is_forced(state):
    """Return whether the current decision has a single legal action; false once the game is over."""
    return state[MASK] != 0 and state[MASK] & (state[MASK] - 1) == 0


@kernel(borrows=True, forceinline=True)
def play_nearest(tables, layout, state, preferred):
    """Play the preferred action if legal, else the lazy one; returns (gain in ps, action), 0 and -1 at the end."""
    legal = 0 <= preferred <= 2 and state[MASK] >> preferred & 1
    action = np.int64(preferred) if legal else np.int64(lazy_action(tables, layout, state))
    if action < 0:
        return np.int64(0), action
    return play(tables, layout, state, action), action


@kernel(borrows=True)
def play_all(tables, layout, states, actions, gains, played):
    """Play one decision in each unfinished state.

    Args:
        tables, layout: tables and layout of the game.
        states: int64[B, size].
        actions: int[B]; an illegal one is replaced as by `play_nearest`.
        gains: int64[B], filled with what each decision gains in ps; 0 for finished states.
        played: int64[B], filled with the actions played; -1 for finished states.
    """
    for index in range(len(states)):
        gains[index], played[index] = play_nearest(tables, layout, states[index], actions[index])


@kernel(borrows=True, forceinline=True)
def _estimate(tables, state):
    """Return the latency in ps if everything undecided is served by the backing memory, all waits so far included."""
    op, decided = state[OP], state[FINAL_PS] + state[STALL_PS]
    if op == len(tables.costs.compute_ps):
        return decided + state[TAIL_PS]
    used = (state[FAST_PS], state[BACKING_PS] + state[OPEN_PS])
    return decided + op_time(tables.costs, op, used)[0] + tables.rest_ps[op + 1]


@kernel(borrows=True, forceinline=True)
def _open_op(tables, state, op):
    """Make `op` the current one, all of its uses undecided."""
    state[OP] = op
    state[FAST_PS] = 0
    state[BACKING_PS] = 0
    state[OPEN_PS] = 0
    if op < len(tables.costs.compute_ps):
        for use in range(tables.use_ptr[op], tables.use_ptr[op + 1]):
            state[OPEN_PS] += tables.costs.use_ps[use, 1]


@kernel(borrows=True, forceinline=True)
def _close_full_ops(tables, layout, state):
    """Make every op final whose uses are all decided."""
    ops = len(tables.costs.compute_ps)
    # One pass closes the current op and opens the next; ops without uses close at once.
    while state[OP] < ops and state[USE] == tables.use_ptr[state[OP] + 1]:
        op = state[OP]
        time, busy = op_time(tables.costs, op, (state[FAST_PS], state[BACKING_PS]))
        state[FINAL_PS] += time
        state[layout.free + op] = time - busy
        end_write_backs(tables, layout, state, op)
        retire(layout, state, op)
        _open_op(tables, state, op + 1)
        if state[OP] == ops:
            finish_write_backs(tables, layout, state)


@kernel(borrows=True, forceinline=True)
def _find_legal(tables, layout, state):
    """Set MASK to the legal actions of the next decision."""
    use = state[USE]
    if use == len(tables.use_op):
        state[MASK] = 0
        return
    op, tensor = state[OP], tables.use_tensor[use]
    later, output = tables.last_use[tensor] > use, tables.is_output[tensor]
    if tables.use_is_result[use]:
        # A copied result must lie below what ops after its last use reserve, too, as its write-back has no fixed end.
        # NoCopy must not be the last use of a graph output; Copy must serve a later use or a graph output.
        can_keep = can_copy = _finds_room(tables, layout, state, tables.size[tensor], tables.room[use, PASSING])
        if can_copy and tables.room[use, LASTING] < tables.room[use, PASSING]:
            can_copy = _finds_room(tables, layout, state, tables.size[tensor], tables.room[use, LASTING])
        can_keep = can_keep and (later or not output)
        can_copy = can_copy and (later or output)
        can_drop = True
    elif state[layout.intact + tensor] == 1:
        # An intact operand. Copy sends the only copy back; NoCopy must not be the end of an unsaved graph output; Drop
        # needs the data in the backing memory by now, or on its way there since an earlier op.
        backed, pending = state[layout.valid_from + tensor] <= op, is_pending(layout, state, tensor)
        unsaved = not backed and not pending
        can_copy = unsaved and (later or output) and _may_stay(tables, layout, state, tensor)
        can_keep = later or not output or not unsaved
        can_drop = backed or (pending and state[layout.sent + tensor] < op)
    else:
        # An operand that is not in fast memory. A copy that takes no time would have no window; `in_time` means that
        # it may begin before the op, late or not, and the op before must leave room for it.
        in_time = tables.costs.prefetch_ps[tensor] > 0 and earliest_copy(layout, state, tensor) < op
        can_copy = in_time and has_room(layout, state, tables.size[tensor], tables.room[use, PASSING], op - 1, 0)
        can_keep = False
        can_drop = state[layout.valid_from + tensor] <= op
    state[MASK] = can_copy * (1 << COPY) | can_keep * (1 << NO_COPY) | can_drop * (1 << DROP)


@kernel(borrows=True, forceinline=True)
def _may_stay(tables, layout, state, tensor):
    """Return whether the tensor's block lies below what all later ops reserve, so that it may be held to the end."""
    return state[layout.top + state[layout.block + tensor]] <= tables.room[state[USE], LASTING]


@kernel(borrows=True, forceinline=True)
def _finds_room(tables, layout, state, size, ceiling):
    """Return whether a result fits into fast memory, now or after waiting for all write-backs that can be."""
    if has_room(layout, state, size, ceiling, state[OP], 0):
        return True
    until = waitable(layout, state)
    if until > state[QUEUE_HEAD] and has_room(layout, state, size, ceiling, state[OP], until):
        return True
    return given_block(tables, layout, state, ceiling, until) >= 0
