"""Tables of the stepwise problem that never change: entries in the order of deciding, and what their levels cost."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs import Costs
from memplace_env.placement.compiler.density import block_lives
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

T = TypeVar("T", bound=np.generic)

FAST, MIDDLE, BACKING = 0, 1, 2
"""The three levels that every chip has here; they are the actions. A chip with two levels has no middle one."""

LEVELS: Final = 3
"""Number of these levels."""

MOST_PAIRS: Final = 62
"""Pairs of a group that are looked at: as many as fit into the bits of a number. No known op has as many."""


class StepTables(NamedTuple):
    """Tables of E entries in the order of deciding, T ops, U uses; level 0 is fast, 1 the middle one, 2 backing.

    An entry is one decision of a one-shot assignment that has a choice, or one tensor of a sliced program. Its bytes
    come as segments: ranges of ops that do not overlap, and the bytes that its tensors hold there together. S, P:
    numbers of features.

    Attributes:
        decision: int64[E], index of each entry in an assignment, or its tensor if the program is sliced.
        segment_ptr: int64[E + 1], entry e has the segments segment_ptr[e]..segment_ptr[e + 1] - 1.
        segment_first, segment_last, segment_bytes: int64, first and last op of each segment, and its bytes.
        byte_ops: int64[E], sum of bytes times ops over the segments.
        may: bool[E, 3], whether each level may hold a tensor of the entry.
        fastest: int64[E], fastest of these levels that has room for the entry while it is empty.
        op_ptr: int64[E + 1], entry e is used by `entry_op[op_ptr[e]:op_ptr[e + 1]]`.
        entry_op: int64, ops, each once for an entry.
        use_ptr: int64[T + 1], op t has uses use_ptr[t]..use_ptr[t + 1] - 1.
        use_entry: int64[U], entry of the used tensor; -1 where the tensor stays in the backing memory.
        pair_ptr: int64[E + 1], entry e may share bytes by the rows pair_ptr[e]..pair_ptr[e + 1] - 1 of `pair`.
        pair: int64[X, 7], results that may take the place of operands, in groups that have no tensor in common: op,
            bytes of each, entry of the operand, of the result, both tensors, and the number of rows of the group.
        costs: those of the task; `use_ps` and `latency_ps` with three levels.
        capacity: int64[2], bytes of the fast and of the middle level that blocks can lie in; 0 without a middle one.
        free: int64[2, T], bytes of them that are free in each op before any decision.
        native_ps, all_backing_ps, all_fastest_ps: time by the cost arrays of native's levels, with everything in the
            backing memory, and with every entry in its fastest level.
        first_state: int64[size], the state before the first decision.
        entry_features: float32[E, S], see `step_features`.
        program_features: float32[P].
    """

    decision: Ints
    segment_ptr: Ints
    segment_first: Ints
    segment_last: Ints
    segment_bytes: Ints
    byte_ops: Ints
    may: NDArray[np.bool_]
    fastest: Ints
    op_ptr: Ints
    entry_op: Ints
    use_ptr: Ints
    use_entry: Ints
    pair_ptr: Ints
    pair: Ints
    costs: Costs
    capacity: Ints
    free: Ints
    native_ps: int
    all_backing_ps: int
    all_fastest_ps: int
    first_state: Ints
    entry_features: NDArray[np.float32]
    program_features: NDArray[np.float32]


def entries_with_choice(task: Task, decision_of: Ints) -> Ints:
    """Return int64[E], the decisions that may be met in a fast level, in the order of the schedule.

    Left out are entries that fit into no fast level even if it is empty, and streamed weights of the first op, which no
    copy can bring in time.
    """
    program = task.program
    decided = program.is_placeable.copy()
    if task.streams_weights:
        decided &= (program.live_start > 0) | (program.producer >= 0)
    decisions = np.unique(decision_of[decided])
    tables = tables_of(task, decision_of, decisions)
    return decisions[tables.fastest < BACKING]


def entry_of_tensors(decision_of: Ints, decisions: Ints) -> Ints:
    """Return int64[K], the entry of each tensor, -1 where it has none; entry e decides `decisions[e]`."""
    entry_of_decision = np.full(decision_of.max(initial=-1) + 2, -1)  # the last one is that of `decision_of` -1
    entry_of_decision[decisions] = np.arange(len(decisions))
    return entry_of_decision[decision_of]


def tables_of(task: Task, decision_of: Ints, decisions: Ints) -> StepTables:
    """Return the tables of these decisions in this order, without what `problem` adds: times, features, first state.

    Args:
        task: a task on a chip with two or three levels.
        decision_of: int64[K], the decision about each tensor, -1 for none.
        decisions: int64[E], entries.
    """
    program, costs, entries = task.program, task.costs, len(decisions)
    entry_of = entry_of_tensors(decision_of, decisions)
    of_segment, first, last, size = _segments(task, entry_of)
    free, shared = _free_bytes(task), _pairs(program, entry_of, entries)
    may, decided = np.zeros((entries, LEVELS), dtype=np.bool_), entry_of >= 0
    np.logical_or.at(may, entry_of[decided], _three_levels(task.allowed[decided]))
    use_entry = entry_of[program.use_tensor]
    used = use_entry >= 0
    pairs = np.unique(np.stack([use_entry[used], program.use_op[used]], axis=1), axis=0)
    byte_ops = np.zeros(entries, dtype=np.int64)
    np.add.at(byte_ops, of_segment, size * (last - first + 1))
    return StepTables(
        decision=decisions.astype(np.int64),
        segment_ptr=np.searchsorted(of_segment, np.arange(entries + 1)),
        segment_first=first,
        segment_last=last,
        segment_bytes=size,
        byte_ops=byte_ops,
        may=may,
        fastest=_fastest(free, may, of_segment, first, last, size),
        op_ptr=np.searchsorted(pairs[:, 0], np.arange(entries + 1)),
        entry_op=pairs[:, 1].copy(),
        use_ptr=program.use_ptr.astype(np.int64),
        use_entry=use_entry,
        pair_ptr=np.append(0, np.cumsum([len(rows) for rows in shared], dtype=np.int64)),
        pair=np.array([row for rows in shared for row in rows], dtype=np.int64).reshape(-1, 7),
        costs=costs._replace(use_ps=_three_levels(costs.use_ps), latency_ps=_three_levels(costs.latency_ps)),
        capacity=free.max(axis=1),
        free=free,
        native_ps=0,
        all_backing_ps=0,
        all_fastest_ps=0,
        first_state=np.zeros(0, dtype=np.int64),
        entry_features=np.zeros((entries, 0), dtype=np.float32),
        program_features=np.zeros(0, dtype=np.float32),
    )


def _segments(task: Task, entry_of: Ints) -> Ints:
    """Return int64[4, S]: entries, first and last ops, and bytes of the segments of all entries, in their order.

    A segment ends where the life of a tensor of its entry begins or ends, see `block_lives`.
    """
    tensors, ops = np.flatnonzero(entry_of >= 0), task.program.num_ops + 1
    first, last = (lives[tensors] for lives in block_lives(task))
    entry, size = entry_of[tensors], task.program.tensor_bytes[tensors]
    # Places where an entry's bytes change, by how much in all, and what it holds from there to the next one.
    places, which = np.unique(np.concatenate([entry * ops + first, entry * ops + last + 1]), return_inverse=True)
    change = np.zeros(len(places), dtype=np.int64)
    np.add.at(change, which, np.concatenate([size, -size]))
    held = np.cumsum(change)
    begin = np.flatnonzero(held)  # nothing is held behind the last place of an entry
    return np.stack([places[begin] // ops, places[begin] % ops, places[begin + 1] % ops - 1, held[begin]])


def _pairs(program: Program, entry_of: Ints, entries: int) -> list[list[tuple[int, ...]]]:
    """Return the rows of each entry in `StepTables.pair`: the groups in which it has a tensor."""
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(entries)]
    pairs = program.handovers[(entry_of[program.handovers[:, :2]] >= 0).all(axis=1)]
    # A node for each tensor as an operand, and one for it as a result.
    nodes = pairs[:, :2] + (0, program.num_tensors)
    label = _least_joined(nodes, 2 * program.num_tensors)[nodes[:, 0]]
    for group in np.unique(label).tolist():
        of_group = pairs[label == group][:MOST_PAIRS]
        ends = [
            (
                op,
                int(program.tensor_bytes[operand]),
                *entry_of[[operand, result]].tolist(),
                operand,
                result,
                len(of_group),
            )
            for operand, result, op in of_group.tolist()
        ]
        for entry in sorted({entry for row in ends for entry in row[2:4]}):
            rows[entry] += ends
    return rows


def _least_joined(pairs: Ints, nodes: int) -> Ints:
    """Return int64[nodes], the least node that a path of pairs joins each with."""
    least = np.arange(nodes)
    while np.ptp(apart := least[pairs], axis=1).any():
        np.minimum.at(least, apart, apart.min(axis=1, keepdims=True))
        least = least[least]
    return least


def _free_bytes(task: Task) -> Ints:
    """Return int64[2, T], bytes of the fast and the middle level that are free in each op while nothing is placed.

    Where weights stay, whatever any op reserves is lost at all times: weights lie below it, and results below them.
    """
    free = np.zeros((2, task.program.num_ops), dtype=np.int64)
    for level in range(task.backing):
        room = task.room_bytes(level)
        free[level] = room[:-1] if task.streams_weights else room.min()
    return np.maximum(free, 0)


def _fastest(free: Ints, may: NDArray[np.bool_], entry: Ints, first: Ints, last: Ints, size: Ints) -> Ints:
    """Return `StepTables.fastest`: the fastest level that may hold an entry and has room for all its segments."""
    fits = may[:, :BACKING].copy()
    if len(entry):
        ranges = np.stack([first, last + 1], axis=1).ravel()
        room = np.minimum.reduceat(np.pad(free, ((0, 0), (0, 1))), ranges, axis=1)[:, ::2]
        np.logical_and.at(fits, entry, (room >= size).T)
    return np.select([fits[:, FAST], fits[:, MIDDLE]], [FAST, MIDDLE], BACKING)


def _three_levels(array: NDArray[T]) -> NDArray[T]:
    """Return the array with three levels in its last axis; a middle one that the chip has not is 0 and never used."""
    if array.shape[-1] == LEVELS:
        return array
    wide = np.zeros((*array.shape[:-1], LEVELS), dtype=array.dtype)
    wide[..., FAST], wide[..., BACKING] = array[..., 0], array[..., -1]
    return wide
