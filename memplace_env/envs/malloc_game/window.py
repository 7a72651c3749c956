"""When a copy comes in: as late as the free time of the port allows, or as early as there is room, and then too late.

The two ends of a copy are at odds: an early start finds more free port time and less room. In time it takes none of
what write-backs still wait for; if there is no such window, they give way.
"""

from __future__ import annotations

from memplace_env.envs.malloc_game.room import FOR_EVER, find_gaps, new_gaps, without, without_block
from memplace_env.envs.malloc_game.state import OP, PASSING, PAST, QUEUE_HEAD, QUEUE_TAIL, USE
from memplace_env.kernel import kernel


@kernel(forceinline=True)
def earliest_copy(layout, state, tensor):
    """First op in which a copy of a tensor that is not in fast memory may start."""
    earliest, block = state[layout.valid_from + tensor], state[layout.block + tensor]
    return earliest if block < 0 else max(earliest, state[layout.hold + block] + 1)


@kernel
def copy_window(tables, layout, state, tensor):
    """(first op, wait in ps) of a copy that comes in for the current op; it must be legal."""
    limit = op = state[OP]
    if state[QUEUE_HEAD] < state[QUEUE_TAIL]:
        limit = min(op, state[layout.sent + state[layout.queue + state[QUEUE_HEAD]]])
    start, wait = _search(tables, layout, state, tensor, limit)
    if wait > 0 and limit < op:
        start, wait = _search(tables, layout, state, tensor, op)
    return start, wait


@kernel
def _search(tables, layout, state, tensor, limit):
    """(first op, what is lacking) of the copy that lacks least, the latest of these, with port time before `limit`.

    Walks back from the op before the current one, and ends when the time suffices or the room does not.
    """
    first, size = state[OP] - 1, tables.size[tensor]
    start, lacking = first, tables.prefetch_ps[tensor]
    if first < limit:
        lacking -= state[layout.free + first]
    earliest = earliest_copy(layout, state, tensor)
    if lacking <= 0 or first == earliest:
        return start, max(lacking, 0)
    gaps = new_gaps(state)
    ceiling = tables.ceiling[state[USE], PASSING]
    count = find_gaps(layout, state, size, ceiling, first, 0, layout.hold, gaps)
    older = state[PAST] - 1
    while lacking > 0 and first > earliest:
        first -= 1
        if tables.usable[first] < ceiling:
            ceiling = tables.usable[first]
            count = without(gaps, count, size, ceiling, tables.capacity, FOR_EVER)
        while older >= 0 and state[layout.hold + state[layout.past + older]] == first:
            count = without_block(layout, state, size, state[layout.past + older], gaps, count)
            older -= 1
        if count == 0:
            break
        if first < limit and state[layout.free + first] > 0:
            start, lacking = first, lacking - state[layout.free + first]
    return start, max(lacking, 0)
