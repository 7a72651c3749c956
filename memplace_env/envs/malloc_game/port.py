"""Time of the backing memory's port: who books it, and for whom an op waits.

Copies in book when they are decided, from their first op on. A write-back books nothing until it ends: in the first
final op by which what is free since its start suffices, or when somebody waits for it. So a late copy takes back the
time of write-backs that are still pending, as they are served after it.
"""

from __future__ import annotations

from memplace_env.envs.malloc_game.state import NEVER, OP, QUEUE_HEAD, QUEUE_TAIL, STALL_PS, TAIL_PS
from memplace_env.kernel import kernel


@kernel(forceinline=True)
def book(layout, state, start, end, need):
    """Take free port time of ops start..end-1, the earliest first; returns what is lacking."""
    for op in range(start, end):
        if need == 0:
            break
        taken = min(need, state[layout.free + op])
        state[layout.free + op] -= taken
        need -= taken
    return need


@kernel(forceinline=True)
def stall(layout, state, wait):
    """The current op waits."""
    state[layout.stall + state[OP]] += wait
    state[STALL_PS] += wait


@kernel(forceinline=True)
def is_pending(layout, state, tensor):
    """Whether a write-back of the tensor is under way."""
    return state[layout.turn + tensor] >= state[QUEUE_HEAD]


@kernel(forceinline=True)
def send_back(layout, state, tensor):
    """Begin a write-back with the next op."""
    turn = state[QUEUE_TAIL]
    state[layout.turn + tensor] = turn
    state[layout.sent + tensor] = state[OP] + 1
    state[layout.queue + turn] = tensor
    state[QUEUE_TAIL] = turn + 1


@kernel(forceinline=True)
def waitable(layout, state):
    """Place in the queue after the last write-back that the current op could wait for."""
    turn = state[QUEUE_HEAD]
    while turn < state[QUEUE_TAIL] and state[layout.sent + state[layout.queue + turn]] < state[OP]:
        turn += 1
    return turn


@kernel(forceinline=True)
def wait_for(tables, layout, state, until):
    """The current op waits for the write-backs before place `until` of the queue; they end in the op before it."""
    while state[QUEUE_HEAD] < until:
        tensor = state[layout.queue + state[QUEUE_HEAD]]
        demand = tables.writeback_ps[tensor]
        stall(layout, state, book(layout, state, state[layout.sent + tensor], state[OP], demand))
        _end(layout, state, tensor, state[OP] - 1)


@kernel
def backlog(tables, layout, state, until):
    """Time that the write-backs before place `until` of the queue lack before the current op: what waiting costs.

    The port serves them whenever it is free, so nothing has to be booked to know.
    """
    turn = state[QUEUE_HEAD]
    if turn >= until:
        return 0
    op, lacking = state[layout.sent + state[layout.queue + turn]], 0
    while op < state[OP]:
        while turn < until and state[layout.sent + state[layout.queue + turn]] == op:
            lacking += tables.writeback_ps[state[layout.queue + turn]]
            turn += 1
        lacking = max(lacking - state[layout.free + op], 0)
        op += 1
    while turn < until:
        lacking += tables.writeback_ps[state[layout.queue + turn]]
        turn += 1
    return lacking


@kernel(forceinline=True)
def end_write_backs(tables, layout, state, op):
    """End the write-backs that are done once `op` is final."""
    while state[QUEUE_HEAD] < state[QUEUE_TAIL]:
        tensor = state[layout.queue + state[QUEUE_HEAD]]
        start, lacking = state[layout.sent + tensor], tables.writeback_ps[tensor]
        if start > op:
            break
        for during in range(op, start - 1, -1):
            if lacking <= 0:
                break
            lacking -= state[layout.free + during]
        if lacking > 0:
            break
        book(layout, state, start, op + 1, tables.writeback_ps[tensor])
        _end(layout, state, tensor, op)


@kernel
def finish_write_backs(tables, layout, state):
    """After the last op, the pending write-backs book what there is; what they lack is the tail."""
    for turn in range(state[QUEUE_HEAD], state[QUEUE_TAIL]):
        tensor = state[layout.queue + turn]
        state[TAIL_PS] += book(layout, state, state[layout.sent + tensor], state[OP], tables.writeback_ps[tensor])


@kernel(forceinline=True)
def _end(layout, state, tensor, op):
    """The oldest write-back, this tensor's, ends in `op`; its block need not be held for it any longer."""
    state[QUEUE_HEAD] += 1
    state[layout.drained + tensor] = op
    state[layout.valid_from + tensor] = op + 1
    block = state[layout.block + tensor]
    hold = max(state[layout.used + tensor], op)
    if state[layout.stays + block] == NEVER:
        state[layout.stays + block] = hold
    state[layout.hold + block] = hold
    state[layout.released + block] = op
