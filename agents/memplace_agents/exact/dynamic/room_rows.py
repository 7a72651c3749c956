"""Rows for capacity: no op holds more than a level."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.dynamic.draft import Draft
from memplace_agents.exact.dynamic.dual_feasible import weights_of
from memplace_agents.exact.highs import CAPACITY
from memplace_env.program.program import Ints


class Occupants(NamedTuple):
    """Shares of tensors that a level holds; those of a tensor in an op add up to at most 1. Sorted by op.

    Attributes:
        op, tensor, column: int64[n] each.
        sign: int64[n], 1; -1 for a result whose place is counted as its operand's already.
        room: int64[T+1], bytes that blocks may take in each op.
        given: int64[N, 4], operand, result, op and column of the latter: the result takes the operand's place.
    """

    op: Ints
    tensor: Ints
    column: Ints
    sign: Ints
    room: Ints
    given: Ints

    def at(self, op: int) -> slice:
        """Return the rows of an op."""
        return slice(*np.searchsorted(self.op, [op, op + 1]).tolist())


def add_room(draft: Draft, level: int) -> Occupants:
    """Add rows: in each op, the blocks in the level and its reserved bytes are at most its capacity.

    Returns:
        Who is in the level.
    """
    memory = int(draft.task.capacities[level])
    size, scale = draft.program.tensor_bytes, CAPACITY / memory
    occupants = _occupants_of(draft, level, draft.task.room_bytes(level))
    op, tensor, column, sign, room, _ = occupants
    row = draft.rows.new(len(room), -scale * room)
    draft.rows.add(row[op], column, -scale * size[tensor] * sign)
    # No block that exceeds an op's room is there; the row above would allow a share of it.
    large = np.flatnonzero((size[tensor] > room[op]) & (sign > 0))
    draft.rows.add(draft.rows.new(len(large)), column[large], -1)
    for key in sorted(row for row in draft.detail.weighed if row[0] == level):
        _, op_, function = key
        there = occupants.at(op_)
        (weight,) = weights_of([function], size[tensor[there]], int(room[op_]))
        row = draft.rows.new(1, -CAPACITY)
        draft.rows.add(row, np.where(weight > 0, column[there], -1), -CAPACITY * weight * sign[there])
        draft.weighed[key] = int(row[0])
    return occupants


def _occupants_of(draft: Draft, level: int, room: Ints) -> Occupants:
    """Return who is in the level, after adding the columns and rows that say so."""
    parts = [(np.empty(0, np.int64),) * 3]
    weights, ops = np.flatnonzero(draft.columns.resident[:, level] >= 0), np.arange(draft.program.num_ops)
    for tensor in weights.tolist():
        parts.append((ops, np.full(len(ops), tensor), np.full(len(ops), draft.columns.resident[tensor, level])))
    for tensor in range(draft.program.num_tensors):
        parts += [(op, np.full(len(op), tensor), column) for op, column in _occupants(draft, tensor, level)]
    given, held = _handovers(draft, level), len(parts)
    parts.append((given[:, 2], given[:, 1], given[:, 3]))
    sign = np.repeat([1, -1], [sum(len(part[0]) for part in parts[:held]), len(given)])
    op, tensors, column = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(op, kind="stable")
    return Occupants(op[order], tensors[order], column[order], sign[order], room, given)


def _handovers(draft: Draft, level: int) -> Ints:
    """Return `Occupants.given`, after adding the columns, and rows: a block gives its place, and takes one, once."""
    here, pairs = draft.columns.here[:, level], draft.program.handovers
    uses = np.stack([draft.uses.last[pairs[:, 0]], draft.uses.first[pairs[:, 1]]], 1)
    can = (here[uses] >= 0).all(axis=1)
    pairs, uses = pairs[can], uses[can]
    column = draft.new_columns(pairs[:, 2])
    for ends in uses.T:
        use, end = np.unique(ends, return_inverse=True)
        row = draft.rows.new(len(use))
        draft.rows.add(row, here[use])
        draft.rows.add(row[end], column, -1)
    return np.column_stack([pairs, column])


def _occupants(draft: Draft, tensor: int, level: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield ops and columns: shares of the tensor that the level holds then, which add up to at most 1 in an op."""
    uses, columns, op_of = draft.uses, draft.columns, draft.program.use_op
    held_uses = [use for use in draft.uses_of(tensor) if columns.here[use, level] >= 0]
    if not held_uses:
        return
    parts = [(op_of[held_uses], columns.here[held_uses, level])]
    for use in held_uses:
        if columns.stay[use, level] >= 0:
            between = np.arange(op_of[uses.before[use]] + 1, op_of[use])
            parts.append((between, np.full(len(between), columns.stay[use, level])))
    flows = [_copy_in(draft, use, level) for use in held_uses if columns.copied[use, level] >= 0]
    flows += [_move_in(draft, use, level, source) for use in held_uses for source in draft.sources]
    flows = [(op, column) for op, column in flows if len(op)]
    outs = [(use, to) for use in held_uses for to in draft.sources if columns.moved[use, to, level] >= 0]
    outs = [(use, to) for use, to in outs if uses.before[use] >= 0]
    sends = columns.sent[tensor, level] >= 0
    if not sends and not flows and not outs:
        yield from parts
        return
    first = min(int(op[0]) for op, _ in [*parts, *flows] if len(op))
    last = max(int(op_of[held_uses[-1]]), int(uses.sent_by[tensor]) if sends else 0)
    if not sends and not outs and len(held_uses) == 1:
        yield from [*parts, *flows]
        return
    # One column for each op, at least each share, so that a block that stays and is written back counts once.
    span = np.arange(first, last + 1)
    held = draft.new_columns(span)
    row = draft.rows.new(len(span))
    draft.rows.add(row, held)
    for op, column in [*parts, *flows]:
        draft.rows.add(row[op - first], column, -1)
    for use, to in outs:  # what is copied from here stays until it is done, unless it stays anyway
        op = np.arange(columns.since[use], op_of[use])
        row = draft.rows.new(len(op))
        draft.rows.add(row, held[op - first])
        draft.rows.add(row, np.full(len(op), columns.moved[use, to, level] + len(op) - 1), -1)
        draft.rows.add(row, draft.moved(np.full(len(op), use), to, level, op - 1))
        draft.rows.add(row, np.full(len(op), columns.resident[tensor, level]))
        for when, column in flows:  # a tensor has one block of a level at a time
            inside = (when >= op[0]) & (when <= op[-1])
            draft.rows.add(row[when[inside] - op[0]], column[inside], -1)
    if sends:
        sending = np.arange(uses.valid[tensor], uses.sent_by[tensor] + 1)
        row = _sending(draft, tensor, level, sending)
        draft.rows.add(row, held[sending - first])
        for op, column in flows:
            inside = (op >= sending[0]) & (op <= sending[-1])
            draft.rows.add(row[op[inside] - sending[0]], column[inside], -1)
    yield span, held


def _sending(draft: Draft, tensor: int, level: int, op: Ints) -> Ints:
    """Return new rows minus the share of the tensor that the block of a write-back still has to hold."""
    tensors = np.full(len(op), tensor)
    switched = np.array([(tensor, level, t) in draft.detail.sends for t in op.tolist()])
    # Without a switch the block holds what is still to be sent, the final share less that of the op before. With one it
    # holds the switch, which is at least that: 1 as long as anything is still to be sent.
    row = draft.rows.new(len(op))
    inner = row.copy()
    if switched.any():
        switch = draft.new_switches(op[switched])
        draft.rows.add(row[switched], switch, -1)
        inner[switched] = draft.rows.new(len(switch))
        draft.rows.add(inner[switched], switch)
    draft.rows.add(inner, draft.sent(tensors, level, np.full(len(op), draft.uses.sent_by[tensor])), -1)
    draft.rows.add(inner, draft.sent(tensors, level, op - 1))
    return row


def _copy_in(draft: Draft, use: int, level: int) -> tuple[Ints, Ints]:
    """Return the ops during which a copy may be under way, and the columns of the share of its block that counts."""
    op = np.arange(draft.columns.window[use], draft.program.use_op[use])
    return op, _whole(draft, (use, level), op, draft.columns.copied[use, level] + np.arange(len(op)))


def _move_in(draft: Draft, use: int, level: int, source: int) -> tuple[Ints, Ints]:
    """Return what `_copy_in` does for a copy from another fast level; no ops if there is none."""
    first, since = draft.columns.moved[use, level, source], draft.columns.since[use]
    op = np.arange(since, draft.program.use_op[use] if first >= 0 else since)
    return op, _whole(draft, (use, level + draft.task.backing * (1 + source)), op, first + np.arange(len(op)))


def _whole(draft: Draft, key: tuple[int, int], op: Ints, column: Ints) -> Ints:
    """Return the columns of the shares of a copy's block that count, see `Detail.copies`."""
    switched = np.array([(*key, t) in draft.detail.copies for t in op.tolist()], dtype=np.bool_)
    # A switch is at least the share that is done, so it is 1 as soon as anything is: the whole block counts.
    if switched.any():
        switch = draft.new_switches(op[switched])
        row = draft.rows.new(len(switch))
        draft.rows.add(row, switch)
        draft.rows.add(row, column[switched], -1)
        column = np.where(switched, -1, column)
        column[switched] = switch
    return column
