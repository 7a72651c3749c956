"""When a copy comes in: as late as the free time of the port allows, or as early as there is room, and then too late.

The two ends of a copy are at odds: an early start finds more free port time and less room. In time it takes none of
what write-backs still wait for; if there is no such window, they give way.
"""

from __future__ import annotations

from memplace_env.envs.malloc_game.room import find_gaps, new_gaps, without, without_block
from memplace_env.envs.malloc_game.state import NEVER, OP, PAST, QUEUE_HEAD, QUEUE_TAIL
from memplace_env.kernel import kernel


@kernel
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
    op, size = state[OP], tables.size[tensor]
    gaps = new_gaps(state)
    count = find_gaps(tables, layout, state, size, op - 1, 0, False, gaps)
    older = state[PAST] - 1
    start, lacking = op - 1, tables.prefetch_ps[tensor]
    for first in range(op - 1, earliest_copy(layout, state, tensor) - 1, -1):
        if tables.ceiling[first] < tables.ceiling[first + 1]:
            count = without(gaps, count, size, tables.ceiling[first], tables.capacity, NEVER)
        while older >= 0 and state[layout.hold + state[layout.past + older]] == first:
            count = without_block(tables, layout, state, size, state[layout.past + older], gaps, count)
            older -= 1
        if count == 0:
            break
        if first < limit and state[layout.free + first] > 0:
            start, lacking = first, lacking - state[layout.free + first]
            if lacking <= 0:
                return first, 0
    return start, lacking
