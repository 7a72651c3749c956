"""Compiled parts of the surrogate: annealing over levels that fit by bytes, without an evaluation.

In shapes `S` denotes the decisions of an assignment, `B` the tensors that they are about, `U` the uses, `T` the ops and
`L` the levels. Tensors are numbered by decision here: those of decision s are `of[s]:of[s + 1]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.machine.costs.op_time_kernels import op_time
from memplace_env.program.program import Ints

_MOST_TOGETHER = 4
"""Most neighbouring decisions that a move begins with."""
_MOST_EVICTED = 16
"""Most decisions that step down for those."""
_COMPARED = 3
"""Most decisions that are compared before one steps down."""
_FILLS = 24
"""Most decisions that a move tries to bring into the level that it made room in."""


class SurrogateState(NamedTuple):
    """Levels, and what follows from them.

    Attributes:
        requested: int64[S].
        level: int64[B], levels that the tensors have.
        used_ps: int64[T, L], time that each op's uses of a level take.
        room: int64[L - 1, T], bytes that are free.
        left_ps: int64[T], time that each op leaves of the backing memory's port.
        copied_ps: int64[T], time of that port that copies need before each op.
    """

    requested: Ints
    level: Ints
    used_ps: Ints
    room: Ints
    left_ps: Ints
    copied_ps: Ints


class SurrogateChanges(NamedTuple):
    """The changes of a move in order, to undo them: who had which level before; int64[n] each."""

    decision: Ints
    requested: Ints
    tensor: Ints
    level: Ints


@kernel
def anneal(costs, tables, requested, level, room, moves, heat_ps, seed):
    """Run a chain of simulated annealing over levels; return by how many ps the program gets slower.

    A move changes the level of one decision, or of a few neighbours. Where that lacks bytes, others step down; then
    decisions that gain come into the level as long as they fit. Where weights are copied in, the backing memory's port
    must have the time for that before their first use.

    Args:
        costs: the Costs.
        tables: the SurrogateTables.
        requested: int64[S], changed.
        level: int64[B], levels that were granted; changed.
        room: int64[L - 1, T], free bytes of each fast level in each op beside all tensors; changed.
        moves: number of moves.
        heat_ps: ps by which a slower move is accepted with probability 1/e.
        seed: seed of the chain.
    """
    np.random.seed(seed)
    backing, movable = costs.use_ps.shape[1] - 1, tables.movable
    state = _begin(costs, tables, requested, level, room)
    most = 2 * _MOST_TOGETHER + _MOST_EVICTED + _FILLS
    decisions, tensors = np.empty((2, most), dtype=np.int64), np.empty((2, most * tables.widest), dtype=np.int64)
    changes = SurrogateChanges(decisions[0], decisions[1], tensors[0], tensors[1])
    total = 0.0
    for _ in range(moves if len(movable) else 0):
        done, slower, fits = (0, 0), 0.0, True  # how many decisions and tensors have changed
        at, together = np.random.randint(len(movable)), 1
        if np.random.random() < 0.3:
            together = min(np.random.randint(2, _MOST_TOGETHER + 1), len(movable) - at)
        to, left = np.random.randint(backing + 1), backing
        for decision in movable[at : at + together]:
            if requested[decision] != to and tables.mask[decision, to]:
                left = min(left, requested[decision])
                more, done = _request(costs, tables, state, changes, done, decision, to, False)
                slower += more
        own = done[0]
        if own == 0:
            continue
        # Evict until every op has the bytes; what steps down may overflow the next level, which comes next.
        for fast in range(to, backing):
            while fits:
                op = room[fast].argmin()
                if room[fast, op] >= 0:
                    break
                victim = _victim(costs, tables, state, fast, op, changes.decision[:own])
                fits = victim >= 0 and done[0] < own + _MOST_EVICTED
                if fits:
                    down = _next_level(tables, victim, fast)
                    more, done = _request(costs, tables, state, changes, done, victim, down, True)
                    slower += more
        # Room became free in the level of the evicted, or in the one that the decision left: bring in what gains.
        fast = to if done[0] > own else left
        if fits and fast < backing:
            for _ in range(np.random.randint(_FILLS + 1)):
                decision = movable[np.random.randint(len(movable))]
                if requested[decision] > fast and _gains(costs, tables, state, decision, fast):
                    more, done = _request(costs, tables, state, changes, done, decision, fast, False)
                    slower += more
        # Metropolis; 1e-300 keeps the logarithm finite.
        accepted = fits and slower <= -heat_ps * np.log(max(np.random.random(), 1e-300))
        if accepted and (not tables.streamed or _copies_fit(state)):
            total += slower
            continue
        for index in range(done[1] - 1, -1, -1):
            _serve(costs, tables, state, changes.tensor[index], changes.level[index])
        for index in range(done[0] - 1, -1, -1):
            requested[changes.decision[index]] = changes.requested[index]
    return total


@kernel
def latencies(costs, tables, requested, room):
    """Return float64[N], ps that the program should take with each assignment.

    A tensor gets the fastest level that has its bytes when its decision comes, from the requested one down. A weight
    that is copied in must also find the time for that on the backing memory's port, before its first use.

    Args:
        costs: the Costs.
        tables: the SurrogateTables.
        requested: int64[N, S], levels by the mask.
        room: int64[L - 1, T], free bytes of each fast level in each op beside all tensors.
    """
    backing, ops, tensors = costs.use_ps.shape[1] - 1, len(costs.compute_ps), len(tables.size)
    used = np.empty((ops, backing + 1), dtype=np.int64)
    held, least = np.empty(backing, dtype=np.int64), np.empty(backing, dtype=np.int64)
    total_ps = np.zeros(len(requested))
    for row in range(len(requested)):
        # Bytes of tensors that stay for the whole program are in `held`, those of others come off `free`.
        free = room.copy()
        used[:], held[:] = 0, 0
        for fast in range(backing):
            least[fast] = room[fast].min()
        for use in range(len(tables.use_op)):
            if tables.tensor_of_use[use] < 0:
                used[tables.use_op[use], backing] += costs.use_ps[use, backing]
        decision, reached, spare_ps = 0, 0, np.int64(0)
        for tensor in range(tensors):
            while tensor >= tables.of[decision + 1]:
                decision += 1
            # All that the ops before this tensor's first use depend on is decided.
            while tables.streamed and reached < tables.arrives[tensor]:
                whole, busy = op_time(costs, reached, used[reached])
                spare_ps += whole - busy
                reached += 1
            first, last = tables.first[tensor], tables.last[tensor]
            stays, size, to = first == 0 and last == ops - 1, tables.size[tensor], requested[row, decision]
            while to < backing:
                if stays:
                    lowest = least[to]
                else:
                    lowest = free[to, first]
                    for op in range(first + 1, last + 1):
                        lowest = min(lowest, free[to, op])
                if lowest - held[to] >= size and spare_ps >= tables.copy_ps[tensor]:
                    break
                to = _next_level(tables, decision, to)
            if to < backing:
                spare_ps -= tables.copy_ps[tensor]
                if stays:
                    held[to] += size
                else:
                    for op in range(first, last + 1):
                        free[to, op] -= size
                        least[to] = min(least[to], free[to, op])
            for index in range(tables.use_ptr[tensor], tables.use_ptr[tensor + 1]):
                use = tables.uses[index]
                used[tables.use_op[use], to] += costs.use_ps[use, to]
            total_ps[row] += tables.correction_ps[tensor, to]
        for op in range(ops):
            total_ps[row] += op_time(costs, op, used[op])[0]
    return total_ps


@kernel
def _begin(costs, tables, requested, level, room):
    """Return the SurrogateState of levels, whose bytes are taken from `room`."""
    backing, ops = costs.use_ps.shape[1] - 1, len(costs.compute_ps)
    used = np.zeros((ops, backing + 1), dtype=np.int64)
    for use in range(len(tables.use_op)):
        tensor = tables.tensor_of_use[use]
        served = level[tensor] if tensor >= 0 else backing
        used[tables.use_op[use], served] += costs.use_ps[use, served]
    left, copied = np.zeros(ops, dtype=np.int64), np.zeros(ops, dtype=np.int64)
    for op in range(ops):
        whole, busy = op_time(costs, op, used[op])
        left[op] = whole - busy
    state = SurrogateState(requested, level, used, room, left, copied)
    for tensor in range(len(level)):
        _hold(tables, state, tensor, level[tensor], 1)
    return state


@kernel
def _hold(tables, state, tensor, level, sign):
    """Let a tensor take its bytes of a fast level, and its copy's time before its first use; with sign -1 free them."""
    if level < len(state.room):
        for op in range(tables.first[tensor], tables.last[tensor] + 1):
            state.room[level, op] -= sign * tables.size[tensor]
        state.copied_ps[tables.arrives[tensor]] += sign * tables.copy_ps[tensor]


@kernel
def _request(costs, tables, state, changes, done, decision, to, down):
    """Let a decision request a level and its tensors have it; where it steps down, slower ones stay where they are.

    Returns:
        By how many ps the program gets slower, and how many decisions and tensors have changed by now.
    """
    decisions, tensors = done
    changes.decision[decisions], changes.requested[decisions] = decision, state.requested[decision]
    state.requested[decision] = to
    slower = 0.0
    for tensor in range(tables.of[decision], tables.of[decision + 1]):
        was = state.level[tensor]
        if was < to or (was > to and not down):
            changes.tensor[tensors], changes.level[tensors] = tensor, was
            tensors += 1
            slower += _serve(costs, tables, state, tensor, to)
    return slower, (decisions + 1, tensors)


@kernel
def _serve(costs, tables, state, tensor, to):
    """Move a tensor to a level; return by how many ps the program gets slower."""
    was = state.level[tensor]
    _hold(tables, state, tensor, was, -1)
    _hold(tables, state, tensor, to, 1)
    state.level[tensor] = to
    slower = _retime(costs, tables, state, tensor, was, to)
    if tables.streamed:
        for index in range(tables.use_ptr[tensor], tables.use_ptr[tensor + 1]):
            op = tables.use_op[tables.uses[index]]
            whole, busy = op_time(costs, op, state.used_ps[op])
            state.left_ps[op] = whole - busy
    return slower


@kernel
def _retime(costs, tables, state, tensor, was, to):
    """Serve a tensor's uses by another level; return by how many ps the program gets slower."""
    slower = tables.correction_ps[tensor, to] - tables.correction_ps[tensor, was]
    for index in range(tables.use_ptr[tensor], tables.use_ptr[tensor + 1]):
        use = tables.uses[index]
        op = tables.use_op[use]
        slower -= op_time(costs, op, state.used_ps[op])[0]
        state.used_ps[op, was] -= costs.use_ps[use, was]
        state.used_ps[op, to] += costs.use_ps[use, to]
        slower += op_time(costs, op, state.used_ps[op])[0]
    return slower


@kernel
def _fits(tables, state, tensor, level):
    """Return whether a level has a tensor's bytes in every op of its life."""
    if level < len(state.room):
        for op in range(tables.first[tensor], tables.last[tensor] + 1):
            if state.room[level, op] < tables.size[tensor]:
                return False
    return True


@kernel
def _gains(costs, tables, state, decision, to):
    """Return whether a level has room for each tensor of a decision, and the program gets faster with them there."""
    if not tables.mask[decision, to]:
        return False
    begin, end = tables.of[decision], tables.of[decision + 1]
    for tensor in range(begin, end):
        if state.level[tensor] != to and not _fits(tables, state, tensor, to):
            return False
    slower = 0.0
    for tensor in range(begin, end):
        slower += _retime(costs, tables, state, tensor, state.level[tensor], to)
    for tensor in range(begin, end):
        _retime(costs, tables, state, tensor, to, state.level[tensor])
    return slower < 0


@kernel
def _copies_fit(state):
    """Return whether the copies before each op fit into what the ops before it leave of the backing memory's port."""
    left = np.int64(0)
    for op in range(len(state.left_ps)):
        left -= state.copied_ps[op]
        if left < 0:
            return False
        left += state.left_ps[op]
    return True


@kernel
def _next_level(tables, decision, level):
    """Return the next slower level that a decision may have, the backing memory if there is none."""
    level += 1
    while level < tables.mask.shape[1] - 1 and not tables.mask[decision, level]:
        level += 1
    return level


@kernel
def _victim(costs, tables, state, fast, op, kept):
    """Return a decision with bytes in level `fast` during an op, which loses little by leaving it; -1 if none has.

    It is the one that loses least of a few in a random order.
    """
    movable, chosen, least = tables.movable, -1, np.inf
    begin, left = np.random.randint(len(movable)), np.random.randint(1, _COMPARED + 1)
    for step in range(len(movable)):
        decision = movable[(begin + step) % len(movable)]
        holds = False
        for tensor in range(tables.of[decision], tables.of[decision + 1]):
            holds |= state.level[tensor] == fast and tables.first[tensor] <= op <= tables.last[tensor]
        for other in kept:
            holds &= other != decision
        if not holds:
            continue
        lost, down = 0.0, _next_level(tables, decision, fast)
        for tensor in range(tables.of[decision], tables.of[decision + 1]):
            was = state.level[tensor]
            lost += _retime(costs, tables, state, tensor, was, max(was, down))
        for tensor in range(tables.of[decision], tables.of[decision + 1]):
            was = state.level[tensor]
            _retime(costs, tables, state, tensor, max(was, down), was)
        if lost < least:
            chosen, least = decision, lost
        left -= 1
        if left == 0:
            break
    return chosen
