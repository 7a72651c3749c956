"""The rules of mallocGame as compiled functions of one state row; nothing here knows Gymnasium.

The game follows the description of mallocMuZero (arXiv 2305.07440) as far as it is public; where it is silent the
rule is ours. Alias groups and the drop-backup of the paper have no counterpart: views share one tensor, and
protection of data that exists nowhere else removes dead ends.

A state is one int64 row, so that copying it is forking the game. `Tables` holds what never changes; the functions
take sections of the row by the slices in `layout`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.errors import WorkloadError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import cost_tables
from memplace_env.workload.program import Ints, Program, TensorKind

COPY, NO_COPY, DROP = 0, 1, 2
ACTIONS = ("Copy", "NoCopy", "Drop")
NEVER = np.int64(2**40)
"""Op at which something that has not happened yet will have happened."""


class Tables(NamedTuple):
    """What never changes; T ops, K tensors, U uses; level 0 is fast, level 1 the backing memory.

    Attributes:
        use_ptr: int64[T + 1].
        use_op, use_tensor: int64[U].
        use_is_result: bool[U].
        last_use: int64[K], the last use of each tensor.
        is_output: bool[K].
        made: bool[K], results; weights and inputs start in the backing memory.
        size: int64[K], bytes.
        capacity: bytes of the fast level.
        use_ps: int64[U, 2].
        latency_ps: int64[2].
        compute_ps: int64[T].
        overhead_ps: int.
        serial: bool.
        prefetch_ps, writeback_ps: int64[K].
        rest_ps: int64[T + 1], time of ops t.. with everything in the backing memory; rest_ps[0] is the whole.
    """

    use_ptr: Ints
    use_op: Ints
    use_tensor: Ints
    use_is_result: NDArray[np.bool_]
    last_use: Ints
    is_output: NDArray[np.bool_]
    made: NDArray[np.bool_]
    size: Ints
    capacity: int
    use_ps: Ints
    latency_ps: Ints
    compute_ps: Ints
    overhead_ps: int
    serial: bool
    prefetch_ps: Ints
    writeback_ps: Ints
    rest_ps: Ints


def game_tables(program: Program, accelerator: Accelerator) -> Tables:
    """The tables of a program on a machine with two levels.

    The game streams weights whatever the machine's own policy: they start in the backing memory.

    Raises:
        WorkloadError: if the machine has more levels.
    """
    if accelerator.num_levels != 2:
        raise WorkloadError(
            f"The game is played on machines with two memory levels; {accelerator.name!r} has {accelerator.num_levels}."
        )
    costs = cost_tables(program, accelerator)
    last_use = np.zeros(program.num_tensors, dtype=np.int64)
    np.maximum.at(last_use, program.use_tensor, np.arange(program.num_uses))
    backing = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(backing, program.use_op, costs.use_ps[:, 1])
    backing += np.where(backing > 0, costs.latency_ps[1], 0)
    op_ps = np.maximum(costs.compute_ps, backing) + costs.overhead_ps
    return Tables(
        use_ptr=program.use_ptr,
        use_op=program.use_op,
        use_tensor=program.use_tensor,
        use_is_result=program.use_is_result,
        last_use=last_use,
        is_output=program.tensor_kind == TensorKind.OUTPUT,
        made=program.producer >= 0,
        size=program.tensor_bytes,
        capacity=accelerator.levels[0].capacity_bytes,
        use_ps=costs.use_ps,
        latency_ps=costs.latency_ps,
        compute_ps=costs.compute_ps,
        overhead_ps=costs.overhead_ps,
        serial=costs.serial,
        prefetch_ps=costs.prefetch_ps,
        writeback_ps=costs.writeback_ps,
        rest_ps=np.concatenate([np.cumsum(op_ps[::-1])[::-1], [0]]),
    )


# Fields at the head of a state row.
(
    USE,
    OP,
    BLOCKS,
    QUEUE_HEAD,
    QUEUE_TAIL,
    FINAL_PS,
    TAIL_PS,
    PORT_PS,
    _,
    OPEN_PS,
    ESTIMATE,
    MASK,
    OFFSET,
    WINDOW,
    LIVE,
    PAST,
) = range(16)
HEAD = 16
"""Next use and its op; numbers of blocks, of live ones and past ones; ends of the write-back queue; legal actions as
bits; offset and first op of the block that the next decision would place; times of final ops, of the tail, of the open
op's undecided uses in the backing memory; estimated latency; port times of the open op's decided uses (two fields)."""


class Layout(NamedTuple):
    """Where the sections of a state row begin, and its length.

    Sections of K: `valid_from` (first op at which the backing memory holds the tensor, or NEVER), `pending` (a
    write-back is under way), `block` (the tensor's latest block, -1 before any), `intact` (that block still holds
    the data), `sent`, `drained` (first and last op of the write-back, -1 before), `queue`, `left` (write-backs in
    order, and what each still needs). Of U: `level` (of each decided use), and of each block ever placed `offset`,
    `tensor`, `start`, `hold` (last op it is committed to, NEVER while protected), `arrived` (last op of the copy
    that filled it, -1 if an op did), `live` (blocks that are held or still of use, by offset), `past` (all others, by
    hold), `both` (scratch). Of T: `free` (backing port time left in each final op).
    """

    valid_from: int
    pending: int
    block: int
    intact: int
    sent: int
    drained: int
    queue: int
    left: int
    level: int
    offset: int
    tensor: int
    start: int
    hold: int
    arrived: int
    live: int
    past: int
    both: int
    free: int
    size: int


def layout(tables: Tables) -> Layout:
    """The layout of this game's rows."""
    tensors, uses, ops = len(tables.size), len(tables.use_op), len(tables.compute_ps)
    lengths = [HEAD, *[tensors] * 8, *[uses] * 9, ops]
    return Layout(*np.cumsum(lengths).tolist())


def plan_of(program: Program, accelerator: Accelerator, at: Layout, row: Ints) -> MemoryPlan:
    """The MemoryPlan of a finished game."""
    ops, count = program.num_ops, row[BLOCKS]
    tensor, start, hold, offset, arrived = (
        row[section : section + count] for section in (at.tensor, at.start, at.hold, at.offset, at.arrived)
    )
    # Only a write-back that never drains protects its block to the end.
    blocks = np.stack([tensor, np.zeros_like(tensor), offset, start, np.minimum(hold, ops)], axis=1)
    copied = arrived >= 0
    backing, fast = np.ones_like(tensor[copied]), np.zeros_like(tensor[copied])
    prefetches = np.stack([tensor[copied], backing, fast, start[copied], arrived[copied]], axis=1)
    sent, drained = row[at.sent :][: program.num_tensors], row[at.drained :][: program.num_tensors]
    back = np.flatnonzero(sent >= 0)
    last = np.where(drained[back] >= 0, drained[back], ops)
    writes = np.stack([back, np.zeros_like(back), np.ones_like(back), sent[back], last], axis=1)
    levels = row[at.level :][: program.num_uses]
    return MemoryPlan.of(program, accelerator, levels, blocks, np.vstack([prefetches, writes]))


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
        needed = g.last_use[x] > use or g.is_output[x]
        only_here = row[at.valid_from + x] == NEVER and needed
        row[at.hold + row[at.block + x]] = NEVER if row[at.pending + x] == 1 or only_here else op
    row[USE] = use + 1
    _close_full_ops(g, at, row)
    estimate = _estimate(g, row)
    gain = row[ESTIMATE] - estimate
    row[ESTIMATE] = estimate
    _find_legal(g, at, row)
    return gain


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
            row[at.hold + row[at.block + x]] = op
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
    _insert(at, row, at.live, row[LIVE], block)
    row[at.block + x] = block
    row[at.intact + x] = 1
    row[LIVE] += 1
    row[BLOCKS] = block + 1
