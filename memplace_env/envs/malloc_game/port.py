"""Time of the backing memory's port: which copies book it, and for which write-backs an op waits.

Copies in book when they are decided, from their first op on. A write-back books nothing until it ends: in the first
final op by which the time that is free since its start suffices, or when an op waits for it. So a late copy takes back
the time of write-backs that are still pending, as they are served after it.
"""

from __future__ import annotations

from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.state import NEVER, OP, QUEUE_HEAD, QUEUE_TAIL, STALL_PS, TAIL_PS


@kernel(borrows=True, forceinline=True)
def book(layout, state, start, end, need):
    """Take `need` ps of free port time from ops start..end-1, the earliest first; returns what is lacking."""
    # Invariant: `need` is still lacking, and ops start..op-1 have no free time left.
    for op in range(start, end):
        if need == 0:
            break
        booked_ps = min(need, state[layout.free + op])
        state[layout.free + op] -= booked_ps
        need -= booked_ps
    return need


@kernel(borrows=True, forceinline=True)
def stall(layout, state, wait):
    """Let the current op wait for `wait` ps."""
    state[layout.stall + state[OP]] += wait
    state[STALL_PS] += wait


@kernel(borrows=True, forceinline=True)
def is_pending(layout, state, tensor):
    """Return whether a write-back of the tensor is under way."""
    # -1, before any write-back, is below every index of the queue; those below its head have ended.
    return state[layout.turn + tensor] >= state[QUEUE_HEAD]


@kernel(borrows=True, forceinline=True)
def send_back(layout, state, tensor):
    """Begin a write-back with the next op."""
    turn = state[QUEUE_TAIL]
    state[layout.turn + tensor] = turn
    state[layout.sent + tensor] = state[OP] + 1
    state[layout.queue + turn] = tensor
    state[QUEUE_TAIL] = turn + 1


@kernel(borrows=True, forceinline=True)
def waitable(layout, state):
    """Return the index in the queue after the last write-back that the current op could wait for."""
    # The queue is sorted by first op; only write-backs that began before the current op can end before it.
    turn = state[QUEUE_HEAD]
    while turn < state[QUEUE_TAIL] and state[layout.sent + state[layout.queue + turn]] < state[OP]:
        turn += 1
    return turn


@kernel(borrows=True, forceinline=True)
def wait_for(tables, layout, state, until):
    """Let the current op wait for the write-backs before index `until` of the queue; they end in the op before it."""
    # Oldest first: each books what is free since its start, and the op waits for the rest.
    while state[QUEUE_HEAD] < until:
        tensor = state[layout.queue + state[QUEUE_HEAD]]
        demand = tables.costs.writeback_ps[tensor]
        stall(layout, state, book(layout, state, state[layout.sent + tensor], state[OP], demand))
        _end(layout, state, tensor, state[OP] - 1)


@kernel(borrows=True, forceinline=True)
def backlog(tables, layout, state, until):
    """Return the ps that the write-backs before index `until` of the queue lack before the current op: the wait.

    The port serves them whenever it is free, so that nothing has to be booked for this.
    """
    turn = state[QUEUE_HEAD]
    if turn >= until:
        return 0
    op, lacking = state[layout.sent + state[layout.queue + turn]], 0
    # Invariant: `lacking` is what the write-backs begun before `op`, those before `turn`, lack at its start.
    while op < state[OP]:
        while turn < until and state[layout.sent + state[layout.queue + turn]] == op:
            lacking += tables.costs.writeback_ps[state[layout.queue + turn]]
            turn += 1
        lacking = max(lacking - state[layout.free + op], 0)
        op += 1
    # Those that begin with the current op have had no time.
    while turn < until:
        lacking += tables.costs.writeback_ps[state[layout.queue + turn]]
        turn += 1
    return lacking


@kernel(borrows=True, forceinline=True)
def end_write_backs(tables, layout, state, op):
    """End the write-backs that are done once `op` is final."""
    # Oldest first; the first one that is not done ends the loop, as the later ones are served after it.
    while state[QUEUE_HEAD] < state[QUEUE_TAIL]:
        tensor = state[layout.queue + state[QUEUE_HEAD]]
        start, lacking = state[layout.sent + tensor], tables.costs.writeback_ps[tensor]
        if start > op:
            break
        # Sum up the free time since its start, the latest op first, until it suffices.
        for during in range(op, start - 1, -1):
            if lacking <= 0:
                break
            lacking -= state[layout.free + during]
        if lacking > 0:
            break
        book(layout, state, start, op + 1, tables.costs.writeback_ps[tensor])
        _end(layout, state, tensor, op)


@kernel(borrows=True)
def finish_write_backs(tables, layout, state):
    """Book what is free for the write-backs pending after the last op; what they lack is the tail."""
    for turn in range(state[QUEUE_HEAD], state[QUEUE_TAIL]):
        tensor = state[layout.queue + turn]
        state[TAIL_PS] += book(layout, state, state[layout.sent + tensor], state[OP], tables.costs.writeback_ps[tensor])


@kernel(borrows=True, forceinline=True)
def _end(layout, state, tensor, op):
    """End the oldest write-back, this tensor's, in `op`; its block is protected no longer."""
    state[QUEUE_HEAD] += 1
    state[layout.drained + tensor] = op
    state[layout.valid_from + tensor] = op + 1
    block = state[layout.block + tensor]
    committed_until = max(state[layout.used + tensor], op)
    if state[layout.live_until + block] == NEVER:  # no uses left, see `rules._commit`
        state[layout.live_until + block] = committed_until
    state[layout.committed_until + block] = committed_until
    state[layout.released + block] = op
