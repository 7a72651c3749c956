"""The rules of mallocGame as compiled functions of state rows; nothing here knows Gymnasium.

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
from numba import njit

from memplace_env.envs.malloc_game.state import (
    BLOCKS,
    COPY,
    DROP,
    ESTIMATE,
    FINAL_PS,
    LIVE,
    MASK,
    NEVER,
    NO_COPY,
    OFFSET,
    OP,
    OPEN_PS,
    PAST,
    PORT_PS,
    QUEUE_HEAD,
    QUEUE_TAIL,
    TAIL_PS,
    USE,
    WINDOW,
)  # fmt: skip


@njit(cache=True, nogil=True)
def begin(g, at, row):  # type: ignore[no-untyped-def]
    """Write the first state into `row`."""
    row[:] = 0
    row[at.block : at.intact] = -1
    row[at.sent : at.queue] = -1
    for tensor in range(len(g.size)):
        row[at.valid_from + tensor] = NEVER if g.made[tensor] else 0
    _open_op(g, row, 0)
    _close_full_ops(g, at, row)
    row[ESTIMATE] = _estimate(g, row)
    _find_legal(g, at, row)


@njit(cache=True, nogil=True)
def play(g, at, row, action):  # type: ignore[no-untyped-def]
    """Play a legal action; returns by how many picoseconds it lowers the estimated latency."""
    use = row[USE]
    op, x = g.use_op[use], g.use_tensor[use]
    is_result, intact = g.use_is_result[use], row[at.intact + x] == 1
    level = 1 if action == DROP else 0
    row[at.level + use] = level
    row[PORT_PS + level] += g.use_ps[use, level]
    row[OPEN_PS] -= g.use_ps[use, 1]
    if action == DROP:
        if is_result:
            row[at.valid_from + x] = op + 1
    else:
        if is_result:
            _place(g, at, row, x, op)
        elif not intact:
            _place(g, at, row, x, row[WINDOW])
            row[at.arrived + row[at.block + x]] = op - 1
            _book(g, at, row, row[WINDOW], op, g.prefetch_ps[x])
        if action == COPY and (is_result or intact):
            row[at.pending + x] = 1
            row[at.sent + x] = op + 1
            row[at.queue + row[QUEUE_TAIL]] = x
            row[at.left + row[QUEUE_TAIL]] = g.writeback_ps[x]
            row[QUEUE_TAIL] += 1
        only_here = row[at.valid_from + x] == NEVER and g.last_use[x] > use
        block = row[at.block + x]
        if row[at.pending + x] == 1 or only_here:
            row[at.hold + block] = row[at.released + block] = NEVER
        else:
            row[at.hold + block] = op
            row[at.released + block] = min(row[at.released + block], op)
    row[USE] = use + 1
    _close_full_ops(g, at, row)
    estimate = _estimate(g, row)
    gain = row[ESTIMATE] - estimate
    row[ESTIMATE] = estimate
    _find_legal(g, at, row)
    return gain


@njit(cache=True, nogil=True)
def choose(mask, wanted):  # type: ignore[no-untyped-def]
    """The wanted action if it is legal, else Drop, else the first that is legal."""
    if 0 <= wanted <= 2 and mask >> wanted & 1:
        return wanted
    for action in (DROP, COPY, NO_COPY):
        if mask >> action & 1:
            return action
    return -1


@njit(cache=True, nogil=True)
def play_rows(g, at, rows, actions, gains, played):  # type: ignore[no-untyped-def]
    """Play one decision in each unfinished row.

    Args:
        g, at: tables and layout.
        rows: int64[B, at.size].
        actions: int[B]; an illegal one is replaced as by `choose`.
        gains: int64[B], filled with what each decision gains in ps; 0 for finished rows.
        played: int64[B], filled with the actions played; -1 for finished rows.
    """
    for index in range(len(rows)):
        row = rows[index]
        played[index] = choose(row[MASK], actions[index])
        gains[index] = play(g, at, row, played[index]) if played[index] >= 0 else 0


@njit(cache=True, nogil=True)
def random_playouts(g, at, rows, seed):  # type: ignore[no-untyped-def]
    """Finish each row with uniformly random legal actions; row b draws from its own stream, `seed + b`."""
    for index in range(len(rows)):
        np.random.seed(seed + index)
        row = rows[index]
        while row[MASK] != 0:
            action = np.random.randint(3)
            if row[MASK] >> action & 1:
                play(g, at, row, action)


@njit(cache=True, nogil=True)
def greedy_playouts(g, at, rows):  # type: ignore[no-untyped-def]
    """Finish each row with the actions of best immediate gain; ties go to NoCopy, then Copy, then Drop."""
    trial = np.empty(at.size, dtype=np.int64)
    for index in range(len(rows)):
        row = rows[index]
        while row[MASK] != 0:
            best, best_gain = -1, np.int64(0)
            for action in (NO_COPY, COPY, DROP):
                if row[MASK] >> action & 1:
                    trial[:] = row
                    gain = play(g, at, trial, action)
                    if best < 0 or gain > best_gain:
                        best, best_gain = action, gain
            play(g, at, row, best)


@njit(cache=True, nogil=True)
def lazy_playout(g, at, row):  # type: ignore[no-untyped-def]
    """Finish a row with Drop if legal, else NoCopy, else Copy."""
    while row[MASK] != 0:
        play(g, at, row, DROP if row[MASK] >> DROP & 1 else NO_COPY if row[MASK] >> NO_COPY & 1 else COPY)


@njit(cache=True, nogil=True)
def replay_rows(g, at, rows, actions):  # type: ignore[no-untyped-def]
    """Play action sequences int[B, U] from each row's present decision on, writing back what was really played.

    `actions[b, u]` is for use u; illegal ones are replaced as by `choose`, so that any change of a sequence replays.
    """
    for index in range(len(rows)):
        row = rows[index]
        while row[MASK] != 0:
            use = row[USE]
            actions[index, use] = choose(row[MASK], actions[index, use])
            play(g, at, row, actions[index, use])


@njit(cache=True, nogil=True)
def _op_time(g, op, fast, back):  # type: ignore[no-untyped-def]
    """(time of the op, part of it in which the backing port is busy) for such sums of use times."""
    fast += g.latency_ps[0] if fast > 0 else 0
    back += g.latency_ps[1] if back > 0 else 0
    memory = fast + back if g.serial else max(fast, back)
    return max(g.compute_ps[op], memory) + g.overhead_ps, back


@njit(cache=True, nogil=True)
def _estimate(g, row):  # type: ignore[no-untyped-def]
    """Final ops as they are, the open op with its undecided uses and all later ops in the backing memory."""
    op = row[OP]
    if op == len(g.compute_ps):
        return row[FINAL_PS] + row[TAIL_PS]
    return row[FINAL_PS] + _op_time(g, op, row[PORT_PS], row[PORT_PS + 1] + row[OPEN_PS])[0] + g.rest_ps[op + 1]


@njit(cache=True, nogil=True)
def _open_op(g, row, op):  # type: ignore[no-untyped-def]
    row[OP] = op
    row[PORT_PS] = 0
    row[PORT_PS + 1] = 0
    row[OPEN_PS] = 0
    if op < len(g.compute_ps):
        for use in range(g.use_ptr[op], g.use_ptr[op + 1]):
            row[OPEN_PS] += g.use_ps[use, 1]


@njit(cache=True, nogil=True)
def _close_full_ops(g, at, row):  # type: ignore[no-untyped-def]
    """Make every op final whose uses are all decided: write-backs take its leftover in order, the rest is free."""
    ops = len(g.compute_ps)
    while row[OP] < ops and row[USE] == g.use_ptr[row[OP] + 1]:
        op = row[OP]
        time, busy = _op_time(g, op, row[PORT_PS], row[PORT_PS + 1])
        row[FINAL_PS] += time
        free = time - busy
        while row[QUEUE_HEAD] < row[QUEUE_TAIL]:
            x = row[at.queue + row[QUEUE_HEAD]]
            if row[at.sent + x] > op:
                break
            done = min(free, row[at.left + row[QUEUE_HEAD]])
            free -= done
            row[at.left + row[QUEUE_HEAD]] -= done
            if row[at.left + row[QUEUE_HEAD]] > 0:
                break
            row[QUEUE_HEAD] += 1
            row[at.pending + x] = 0
            row[at.drained + x] = op
            row[at.valid_from + x] = op + 1
            block = row[at.block + x]
            row[at.hold + block] = row[at.released + block] = op
        row[at.free + op] = free
        _retire(g, at, row, op)
        _open_op(g, row, op + 1)
    if row[OP] == ops:
        row[TAIL_PS] = 0
        for item in range(row[QUEUE_HEAD], row[QUEUE_TAIL]):
            row[TAIL_PS] += row[at.left + item]


@njit(cache=True, nogil=True)
def _book(g, at, row, start, op, need):  # type: ignore[no-untyped-def]
    """Take free port time of ops start..op-1, the earliest first."""
    for during in range(start, op):
        taken = min(need, row[at.free + during])
        row[at.free + during] -= taken
        need -= taken


@njit(cache=True, nogil=True)
def _find_legal(g, at, row):  # type: ignore[no-untyped-def]
    """Set MASK to the legal actions of the next decision and OFFSET, WINDOW to the block that a new one would get."""
    use = row[USE]
    if use == len(g.use_op):
        row[MASK] = 0
        return
    op, x = g.use_op[use], g.use_tensor[use]
    later, valid_from = g.last_use[x] > use, row[at.valid_from + x]
    row[OFFSET] = -1
    if g.use_is_result[use]:
        row[OFFSET] = _fit(g, at, row, g.size[x], op)
        fits = row[OFFSET] >= 0
        can_copy = fits and (later or g.is_output[x])
        can_keep = fits and (later or not g.is_output[x])
        can_drop = True
    elif row[at.intact + x] == 1:
        unsaved = valid_from > op and row[at.pending + x] == 0
        can_copy = unsaved and (later or g.is_output[x])
        can_keep = not (g.is_output[x] and not later and unsaved)
        can_drop = valid_from <= op
    else:
        row[WINDOW] = _window(g, at, row, x, op)
        if row[WINDOW] >= 0:
            row[OFFSET] = _fit(g, at, row, g.size[x], row[WINDOW])
        can_copy = row[OFFSET] >= 0
        can_keep = False
        can_drop = valid_from <= op
    row[MASK] = can_copy * (1 << COPY) | can_keep * (1 << NO_COPY) | can_drop * (1 << DROP)


@njit(cache=True, nogil=True)
def _window(g, at, row, x, op):  # type: ignore[no-untyped-def]
    """Latest start of a copy of x that the free port time of the ops up to `op` suffices for, or -1."""
    earliest = row[at.valid_from + x]
    if row[at.block + x] >= 0:
        earliest = max(earliest, row[at.hold + row[at.block + x]] + 1)
    gathered = np.int64(0)
    for start in range(op - 1, earliest - 1, -1):
        gathered += row[at.free + start]
        if gathered >= g.prefetch_ps[x]:
            return start
    return -1


@njit(cache=True, nogil=True)
def _retire(g, at, row, op):  # type: ignore[no-untyped-def]
    """Move the live blocks that nothing holds after `op` and nobody will read to the past."""
    kept = 0
    for place in range(row[LIVE]):
        block = row[at.live + place]
        owner = row[at.tensor + block]
        wanted = row[at.block + owner] == block and row[at.intact + owner] == 1 and g.last_use[owner] >= row[USE]
        if row[at.hold + block] > op or wanted:
            row[at.live + kept] = block
            kept += 1
            continue
        where = row[PAST]
        while where > 0 and row[at.hold + row[at.past + where - 1]] > row[at.hold + block]:
            row[at.past + where] = row[at.past + where - 1]
            where -= 1
        row[at.past + where] = block
        row[PAST] += 1
    row[LIVE] = kept


@njit(cache=True, nogil=True)
def _fit(g, at, row, size, since):  # type: ignore[no-untyped-def]
    """Lowest offset of the smallest gap >= size between blocks that are held at or after op `since`, or -1."""
    first, count = at.live, row[LIVE]
    if since < row[OP]:
        first, count = at.both, _merge_past(at, row, since)
    best, best_size, cursor = np.int64(-1), np.int64(2**62), np.int64(0)
    for place in range(first, first + count):
        block = row[place]
        if row[at.hold + block] < since:
            continue
        gap = row[at.offset + block] - cursor
        if size <= gap < best_size:
            best, best_size = cursor, gap
        cursor = max(cursor, row[at.offset + block] + g.size[row[at.tensor + block]])
    if size <= g.capacity - cursor < best_size:
        best = cursor
    return best


@njit(cache=True, nogil=True)
def _merge_past(at, row, since):  # type: ignore[no-untyped-def]
    """Fill `both` with the live blocks and the past ones held at or after `since`, by offset; returns their number."""
    count = row[LIVE]
    row[at.both : at.both + count] = row[at.live : at.live + count]
    for place in range(row[PAST] - 1, -1, -1):
        block = row[at.past + place]
        if row[at.hold + block] < since:
            break
        _insert(at, row, at.both, count, block)
        count += 1
    return count


@njit(cache=True, nogil=True)
def _insert(at, row, first, count, block):  # type: ignore[no-untyped-def]
    """Insert a block into the list row[first : first + count], which is ordered by offset."""
    where = first + count
    while where > first and row[at.offset + row[where - 1]] > row[at.offset + block]:
        row[where] = row[where - 1]
        where -= 1
    row[where] = block


@njit(cache=True, nogil=True)
def _place(g, at, row, x, start):  # type: ignore[no-untyped-def]
    """Add a block of x at OFFSET from op `start`; cached blocks whose space it takes are dead from now on."""
    offset, end, block = row[OFFSET], row[OFFSET] + g.size[x], row[BLOCKS]
    for place in range(row[LIVE]):
        other = row[at.live + place]
        if row[at.offset + other] >= end:
            break
        owner = row[at.tensor + other]
        if row[at.offset + other] + g.size[owner] > offset and row[at.block + owner] == other:
            row[at.intact + owner] = 0
    row[at.offset + block] = offset
    row[at.tensor + block] = x
    row[at.start + block] = start
    row[at.arrived + block] = -1
    row[at.released + block] = -1
    _insert(at, row, at.live, row[LIVE], block)
    row[at.block + x] = block
    row[at.intact + x] = 1
    row[LIVE] += 1
    row[BLOCKS] = block + 1
