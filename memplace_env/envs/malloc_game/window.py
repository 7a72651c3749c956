"""The window of a copy that comes in: the latest start that leaves it enough port time, or the one that waits least.

An early start finds more free port time and less room. A copy that is in time takes no port time from pending
write-backs; if there is no such window, they give way.
"""

from __future__ import annotations

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.room import FOR_EVER, find_gaps, new_gaps, without, without_block
from memplace_env.envs.malloc_game.state import LIVE, OP, PASSING, PAST, QUEUE_HEAD, QUEUE_TAIL, USE


@kernel(borrows=True, forceinline=True)
def earliest_copy(layout, state, tensor):
    """Return the first op in which a copy of a tensor that is not in fast memory may start.

    Not before the backing memory holds the tensor, nor while its previous block is needed.
    """
    earliest, block = state[layout.valid_from + tensor], state[layout.block + tensor]
    return earliest if block < 0 else max(earliest, state[layout.committed_until + block] + 1)


@kernel(borrows=True)
def copy_window(tables, layout, state, tensor):
    """Return (first op, wait in ps) of a copy that comes in for the current op; it must be legal."""
    # Port time from the first op of the oldest pending write-back on is what write-backs may still need.
    limit = op = state[OP]
    if state[QUEUE_HEAD] < state[QUEUE_TAIL]:
        limit = min(op, state[layout.sent + state[layout.queue + state[QUEUE_HEAD]]])
    start, wait = _search(tables, layout, state, tensor, limit)
    if wait > 0 and limit < op:
        start, wait = _search(tables, layout, state, tensor, op)
    return start, wait


@kernel
def _search(tables, layout, state, tensor, limit):
    """Return (first op, ps lacking) of the copy that lacks least, the latest of these, with port time before `limit`.

    The search walks back from the op before the current one, and ends when the time suffices or the room does not.
    """
    first, size = state[OP] - 1, tables.size[tensor]
    start, lacking = first, tables.costs.prefetch_ps[tensor]
    if first < limit:
        lacking -= state[layout.free + first]
    earliest = earliest_copy(layout, state, tensor)
    if lacking <= 0 or first == earliest:
        return start, max(lacking, 0)
    gaps = new_gaps(state[LIVE] + state[PAST])
    ceiling = tables.room[state[USE], PASSING]
    count = find_gaps(layout, state, size, ceiling, first, 0, layout.committed_until, gaps)
    older = state[PAST] - 1
    # Invariant: `gaps` fit a block from op `first` to the current one; `lacking` is what a copy from `start` lacks, and
    # no later start lacks as little. Each pass takes one more op: what it reserves, and the past blocks needed until
    # it, which come in this order since `past` is sorted by `committed_until`.
    while lacking > 0 and first > earliest:
        first -= 1
        if tables.usable[first] < ceiling:
            ceiling = tables.usable[first]
            count = without(gaps, count, size, ceiling, tables.capacity, FOR_EVER)
        while older >= 0 and state[layout.committed_until + state[layout.past + older]] == first:
            count = without_block(layout, state, size, state[layout.past + older], gaps, count)
            older -= 1
        if count == 0:
            break
        if first < limit and state[layout.free + first] > 0:
            start, lacking = first, lacking - state[layout.free + first]
    return start, max(lacking, 0)
