"""The rules of mallocGame as compiled functions of its states; nothing here knows Gymnasium.

The game follows the description of mallocMuZero (arXiv 2305.07440) as far as it is public; where it is silent the
rule is ours. Alias groups and the drop-backup of the paper have no counterpart: views share one tensor, and
protection of data that exists nowhere else removes dead ends.

Decisions are the uses, op by op, an op's operands before its results. Copy brings an operand in, or sends the block
of data that exists nowhere else back to the backing memory while it is used or made; NoCopy uses or makes a block and
no more; Drop reads from or writes to the backing memory. A block is protected while its data exists nowhere else and
is still needed, or while it is being sent back; then it is cached: usable until its space is taken.
"""

from __future__ import annotations

import numpy as np

from memplace_env.costs.kernels import op_time
from memplace_env.envs.malloc_game.state import (
    BACKING_PS,
    BLOCKS,
    COPY,
    DROP,
    ESTIMATE,
    FAST_PS,
    FINAL_PS,
    LIVE,
    MASK,
    NEVER,
    NO_COPY,
    OFFSET,
    OP,
    OPEN_PS,
    PAST,
    QUEUE_HEAD,
    QUEUE_TAIL,
    TAIL_PS,
    USE,
    WINDOW,
)  # fmt: skip
from memplace_env.kernel import kernel
from memplace_env.plan.gaps import ENDLESS, narrower_gap


@kernel
def begin(tables, layout, state):
    """Write the first state into `state`."""
    state[:] = 0
    state[layout.block : layout.intact] = -1
    state[layout.sent : layout.queue] = -1
    for tensor in range(len(tables.size)):
        state[layout.valid_from + tensor] = NEVER if tables.made[tensor] else 0
    _open_op(tables, state, 0)
    _close_full_ops(tables, layout, state)
    state[ESTIMATE] = _estimate(tables, state)
    _find_legal(tables, layout, state)


@kernel
def play(tables, layout, state, action):
    """Play a legal action; returns by how many picoseconds it lowers the estimated latency."""
    use = state[USE]
    op, tensor = tables.use_op[use], tables.use_tensor[use]
    is_result, intact = tables.use_is_result[use], state[layout.intact + tensor] == 1
    level = 1 if action == DROP else 0
    state[layout.level + use] = level
    state[FAST_PS + level] += tables.use_ps[use, level]
    state[OPEN_PS] -= tables.use_ps[use, 1]
    if action == DROP:
        if is_result:
            state[layout.valid_from + tensor] = op + 1
    else:
        if is_result:
            _place(tables, layout, state, tensor, op)
        elif not intact:
            _place(tables, layout, state, tensor, state[WINDOW])
            state[layout.arrived + state[layout.block + tensor]] = op - 1
            _book(tables, layout, state, state[WINDOW], op, tables.prefetch_ps[tensor])
        if action == COPY and (is_result or intact):
            state[layout.pending + tensor] = 1
            state[layout.sent + tensor] = op + 1
            state[layout.queue + state[QUEUE_TAIL]] = tensor
            state[layout.left + state[QUEUE_TAIL]] = tables.writeback_ps[tensor]
            state[QUEUE_TAIL] += 1
        only_here = state[layout.valid_from + tensor] == NEVER and tables.last_use[tensor] > use
        block = state[layout.block + tensor]
        if state[layout.pending + tensor] == 1 or only_here:
            state[layout.hold + block] = state[layout.released + block] = NEVER
        else:
            state[layout.hold + block] = op
            state[layout.released + block] = min(state[layout.released + block], op)
    state[USE] = use + 1
    _close_full_ops(tables, layout, state)
    estimate = _estimate(tables, state)
    gain = state[ESTIMATE] - estimate
    state[ESTIMATE] = estimate
    _find_legal(tables, layout, state)
    return gain


@kernel
def nearest_legal(mask, wanted):
    """The wanted action if it is legal, else Drop, else the first that is legal; -1 once the game is over."""
    if 0 <= wanted <= 2 and mask >> wanted & 1:
        return wanted
    for action in (DROP, COPY, NO_COPY):
        if mask >> action & 1:
            return action
    return -1


@kernel
def play_nearest(tables, layout, state, wanted):
    """Play what `nearest_legal` makes of the wanted action; returns (gain in ps, action), 0 and -1 at the end."""
    action = nearest_legal(state[MASK], wanted)
    if action < 0:
        return np.int64(0), action
    return play(tables, layout, state, action), action


@kernel
def play_all(tables, layout, states, actions, gains, played):
    """Play one decision in each unfinished state.

    Args:
        tables, layout: of the game.
        states: int64[B, size].
        actions: int[B]; an illegal one is replaced as by `nearest_legal`.
        gains: int64[B], filled with what each decision gains in ps; 0 for finished states.
        played: int64[B], filled with the actions played; -1 for finished states.
    """
    for index in range(len(states)):
        gains[index], played[index] = play_nearest(tables, layout, states[index], actions[index])


@kernel
def random_playouts(tables, layout, states, seed):
    """Finish each state with uniformly random legal actions; state b draws from its own stream, `seed + b`."""
    for index in range(len(states)):
        np.random.seed(seed + index)
        state = states[index]
        while state[MASK] != 0:
            action = np.random.randint(3)
            if state[MASK] >> action & 1:
                play(tables, layout, state, action)


@kernel
def greedy_playouts(tables, layout, states):
    """Finish each state with the actions of best immediate gain; ties go to NoCopy, then Copy, then Drop."""
    trial = np.empty(layout.size, dtype=np.int64)
    for index in range(len(states)):
        state = states[index]
        while state[MASK] != 0:
            best, best_gain = -1, np.int64(0)
            for action in (NO_COPY, COPY, DROP):
                if state[MASK] >> action & 1:
                    trial[:] = state
                    gain = play(tables, layout, trial, action)
                    if best < 0 or gain > best_gain:
                        best, best_gain = action, gain
            play(tables, layout, state, best)


@kernel
def lazy_playout(tables, layout, state):
    """Finish a state with Drop if legal, else NoCopy, else Copy."""
    while state[MASK] != 0:
        kept = NO_COPY if state[MASK] >> NO_COPY & 1 else COPY
        play(tables, layout, state, DROP if state[MASK] >> DROP & 1 else kept)


@kernel
def replay_all(tables, layout, states, actions):
    """Play action sequences int[B, U] from each state's present decision on, writing back what was really played.

    `actions[b, u]` is for use u; illegal ones are replaced as by `nearest_legal`, so any change of a sequence replays.
    """
    for index in range(len(states)):
        state = states[index]
        while state[MASK] != 0:
            use = state[USE]
            _, actions[index, use] = play_nearest(tables, layout, state, actions[index, use])


@kernel
def _estimate(tables, state):
    """Final ops as they are, the open op with its undecided uses and all later ops in the backing memory."""
    op = state[OP]
    if op == len(tables.compute_ps):
        return state[FINAL_PS] + state[TAIL_PS]
    used = (state[FAST_PS], state[BACKING_PS] + state[OPEN_PS])
    return state[FINAL_PS] + op_time(tables, op, used)[0] + tables.rest_ps[op + 1]


@kernel
def _open_op(tables, state, op):
    state[OP] = op
    state[FAST_PS] = 0
    state[BACKING_PS] = 0
    state[OPEN_PS] = 0
    if op < len(tables.compute_ps):
        for use in range(tables.use_ptr[op], tables.use_ptr[op + 1]):
            state[OPEN_PS] += tables.use_ps[use, 1]


@kernel
def _close_full_ops(tables, layout, state):
    """Make every op final whose uses are all decided: write-backs take its leftover in order, the rest is free."""
    ops = len(tables.compute_ps)
    while state[OP] < ops and state[USE] == tables.use_ptr[state[OP] + 1]:
        op = state[OP]
        time, busy = op_time(tables, op, (state[FAST_PS], state[BACKING_PS]))
        state[FINAL_PS] += time
        free = time - busy
        while state[QUEUE_HEAD] < state[QUEUE_TAIL]:
            tensor = state[layout.queue + state[QUEUE_HEAD]]
            if state[layout.sent + tensor] > op:
                break
            done = min(free, state[layout.left + state[QUEUE_HEAD]])
            free -= done
            state[layout.left + state[QUEUE_HEAD]] -= done
            if state[layout.left + state[QUEUE_HEAD]] > 0:
                break
            state[QUEUE_HEAD] += 1
            state[layout.pending + tensor] = 0
            state[layout.drained + tensor] = op
            state[layout.valid_from + tensor] = op + 1
            block = state[layout.block + tensor]
            state[layout.hold + block] = state[layout.released + block] = op
        state[layout.free + op] = free
        _retire(tables, layout, state, op)
        _open_op(tables, state, op + 1)
    if state[OP] == ops:
        state[TAIL_PS] = 0
        for item in range(state[QUEUE_HEAD], state[QUEUE_TAIL]):
            state[TAIL_PS] += state[layout.left + item]


@kernel
def _book(tables, layout, state, start, op, need):
    """Take free port time of ops start..op-1, the earliest first."""
    for during in range(start, op):
        taken = min(need, state[layout.free + during])
        state[layout.free + during] -= taken
        need -= taken


@kernel
def _find_legal(tables, layout, state):
    """Set MASK to the legal actions of the next decision and OFFSET, WINDOW to the block that a new one would get."""
    use = state[USE]
    if use == len(tables.use_op):
        state[MASK] = 0
        return
    op, tensor = tables.use_op[use], tables.use_tensor[use]
    later, valid_from = tables.last_use[tensor] > use, state[layout.valid_from + tensor]
    state[OFFSET] = -1
    if tables.use_is_result[use]:
        state[OFFSET] = _fit(tables, layout, state, tables.size[tensor], op)
        fits = state[OFFSET] >= 0
        can_copy = fits and (later or tables.is_output[tensor])
        can_keep = fits and (later or not tables.is_output[tensor])
        can_drop = True
    elif state[layout.intact + tensor] == 1:
        unsaved = valid_from > op and state[layout.pending + tensor] == 0
        can_copy = unsaved and (later or tables.is_output[tensor])
        can_keep = not (tables.is_output[tensor] and not later and unsaved)
        can_drop = valid_from <= op
    else:
        state[WINDOW] = _window(tables, layout, state, tensor, op)
        if state[WINDOW] >= 0:
            state[OFFSET] = _fit(tables, layout, state, tables.size[tensor], state[WINDOW])
        can_copy = state[OFFSET] >= 0
        can_keep = False
        can_drop = valid_from <= op
    state[MASK] = can_copy * (1 << COPY) | can_keep * (1 << NO_COPY) | can_drop * (1 << DROP)


@kernel
def _window(tables, layout, state, tensor, op):
    """Latest start of a copy of tensor that the free port time of the ops up to `op` suffices for, or -1."""
    earliest = state[layout.valid_from + tensor]
    if state[layout.block + tensor] >= 0:
        earliest = max(earliest, state[layout.hold + state[layout.block + tensor]] + 1)
    gathered = np.int64(0)
    for start in range(op - 1, earliest - 1, -1):
        gathered += state[layout.free + start]
        if gathered >= tables.prefetch_ps[tensor]:
            return start
    return -1


@kernel
def _retire(tables, layout, state, op):
    """Move the live blocks that nothing holds after `op` and nobody will read to the past."""
    kept = 0
    for place in range(state[LIVE]):
        block = state[layout.live + place]
        owner = state[layout.tensor + block]
        wanted = (
            state[layout.block + owner] == block
            and state[layout.intact + owner] == 1
            and tables.last_use[owner] >= state[USE]
        )
        if state[layout.hold + block] > op or wanted:
            state[layout.live + kept] = block
            kept += 1
            continue
        where = state[PAST]
        while where > 0 and state[layout.hold + state[layout.past + where - 1]] > state[layout.hold + block]:
            state[layout.past + where] = state[layout.past + where - 1]
            where -= 1
        state[layout.past + where] = block
        state[PAST] += 1
    state[LIVE] = kept


@kernel
def _fit(tables, layout, state, size, since):
    """Lowest offset of the smallest gap >= size between blocks that are held at or after op `since`, or -1.

    A block may be held for long, so it lies below what any op from `since` on reserves.
    """
    first, count = layout.live, state[LIVE]
    if since < state[OP]:
        first, count = layout.both, _merge_past(layout, state, since)
    ceiling = tables.ceiling[since]
    best, best_size, cursor = np.int64(-1), ENDLESS, np.int64(0)
    for place in range(first, first + count):
        block = state[place]
        if state[layout.hold + block] < since:
            continue
        offset = state[layout.offset + block]
        best, best_size = narrower_gap(best, best_size, cursor, min(offset, ceiling) - cursor, size)
        cursor = max(cursor, offset + tables.size[state[layout.tensor + block]])
    best, best_size = narrower_gap(best, best_size, cursor, ceiling - cursor, size)
    return best


@kernel
def _merge_past(layout, state, since):
    """Fill `both` with the live blocks and the past ones held at or after `since`, by offset; returns their number."""
    count = state[LIVE]
    for place in range(count):
        state[layout.both + place] = state[layout.live + place]
    for place in range(state[PAST] - 1, -1, -1):
        block = state[layout.past + place]
        if state[layout.hold + block] < since:
            break
        _insert(layout, state, layout.both, count, block)
        count += 1
    return count


@kernel
def _insert(layout, state, first, count, block):
    """Insert a block into the list state[first : first + count], which is ordered by offset."""
    where = first + count
    while where > first and state[layout.offset + state[where - 1]] > state[layout.offset + block]:
        state[where] = state[where - 1]
        where -= 1
    state[where] = block


@kernel
def _place(tables, layout, state, tensor, start):
    """Add a block of tensor at OFFSET from op `start`; cached blocks whose space it takes are dead from now on."""
    offset, end, block = state[OFFSET], state[OFFSET] + tables.size[tensor], state[BLOCKS]
    for place in range(state[LIVE]):
        other = state[layout.live + place]
        if state[layout.offset + other] >= end:
            break
        owner = state[layout.tensor + other]
        if state[layout.offset + other] + tables.size[owner] > offset and state[layout.block + owner] == other:
            state[layout.intact + owner] = 0
    state[layout.offset + block] = offset
    state[layout.tensor + block] = tensor
    state[layout.start + block] = start
    state[layout.arrived + block] = -1
    state[layout.released + block] = -1
    _insert(layout, state, layout.live, state[LIVE], block)
    state[layout.block + tensor] = block
    state[layout.intact + tensor] = 1
    state[LIVE] += 1
    state[BLOCKS] = block + 1
