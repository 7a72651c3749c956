"""Rows for capacity: no op holds more than a level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memplace_agents.exact.dynamic.draft import Draft
from memplace_agents.exact.highs import CAPACITY
from memplace_env.program.program import Ints


def add_room(draft: Draft, level: int, free_bytes: Ints | None) -> None:
    """Add rows: in each op, the blocks in the level and its reserved bytes are at most its capacity."""
    program, columns = draft.program, draft.columns
    memory = draft.task.accelerator.levels[level].capacity_bytes
    scale = CAPACITY / memory
    reserved = np.append(draft.costs.reserved_bytes[:, level], 0)
    reserved = reserved if free_bytes is None else reserved + free_bytes
    room = draft.rows.new(program.num_ops + 1, -CAPACITY + reserved * scale)
    weights = np.flatnonzero(columns.resident[:, level] >= 0)
    column, row = columns.resident[weights, level], room[:-1]
    share = np.repeat(-scale * program.tensor_bytes[weights], len(row))
    draft.rows.add(np.tile(row, len(weights)), np.repeat(column, len(row)), share)
    for tensor in range(program.num_tensors):
        for op, column in _occupants(draft, tensor, level):
            draft.rows.add(room[op], column, -scale * program.tensor_bytes[tensor])


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
    sends = columns.sent[tensor, level] >= 0
    if not sends and not flows:
        yield from parts
        return
    first = min(int(op[0]) for op, _ in [*parts, *flows] if len(op))
    last = max(int(op_of[held_uses[-1]]), int(uses.sent_by[tensor]) if sends else 0)
    if not sends and len(held_uses) == 1:
        yield from [*parts, *flows]
        return
    # One column for each op, at least each share, so that a block that stays and is written back counts once.
    span = np.arange(first, last + 1)
    held = draft.new_columns(len(span))
    row = draft.rows.new(len(span))
    draft.rows.add(row, held)
    for op, column in [*parts, *flows]:
        draft.rows.add(row[op - first], column, -1)
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
        switch = draft.new_switches(int(switched.sum()))
        draft.rows.add(row[switched], switch, -1)
        inner[switched] = draft.rows.new(len(switch))
        draft.rows.add(inner[switched], switch)
    draft.rows.add(inner, draft.sent(tensors, level, np.full(len(op), draft.uses.sent_by[tensor])), -1)
    draft.rows.add(inner, draft.sent(tensors, level, op - 1))
    return row


def _copy_in(draft: Draft, use: int, level: int) -> tuple[Ints, Ints]:
    """Return the ops during which a copy may be under way, and the columns of the share of its block that counts."""
    op = np.arange(draft.columns.window[use], draft.program.use_op[use])
    column = draft.columns.copied[use, level] + np.arange(len(op))
    switched = np.array([(use, level, t) in draft.detail.copies for t in op.tolist()])
    # A switch is at least the share that is done, so it is 1 as soon as anything is: the whole block counts.
    if switched.any():
        switch = draft.new_switches(int(switched.sum()))
        row = draft.rows.new(len(switch))
        draft.rows.add(row, switch)
        draft.rows.add(row, column[switched], -1)
        column = np.where(switched, -1, column)
        column[switched] = switch
    return op, column
