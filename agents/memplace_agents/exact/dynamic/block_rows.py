"""Rows of the dynamic model for blocks: their origin, the uses they serve, and the data in the backing memory."""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.dynamic.draft import Draft
from memplace_env.program.program import Ints, TensorKind


def add_blocks(draft: Draft, level: int) -> None:
    """Add rows: a block has an origin, copies and write-backs never go back, and a use is served from a block."""
    uses, columns, rows, op = draft.uses, draft.columns, draft.rows, draft.program.use_op
    here, stay, fast = columns.here[:, level], columns.stay[:, level], columns.fast[:, level]
    # An operand's block has stayed since the use before, or was copied wholly by the end of the op before.
    operand = np.flatnonzero((here >= 0) & ~draft.program.use_is_result)
    row = rows.new(len(operand), 0, 0)
    rows.add(row, here[operand])
    rows.add(row, stay[operand], -1)
    rows.add(row, draft.copied(operand, level, op[operand] - 1), -1)
    for source in draft.sources:
        rows.add(row, draft.moved(operand, level, source, op[operand] - 1), -1)
        _add_moves(draft, level, source)
    # A block stays only if it was there at the use before.
    staying = np.flatnonzero(stay >= 0)
    row = rows.new(len(staying))
    rows.add(row, here[uses.before[staying]])
    rows.add(row, stay[staying], -1)
    # Where `fast` has a column of its own, it needs a block: one that is here, or a weight that is resident.
    apart = np.flatnonzero((fast >= 0) & (fast != here))
    row = rows.new(len(apart))
    rows.add(row, fast[apart], -1)
    rows.add(row, here[apart])
    rows.add(row, columns.resident[draft.program.use_tensor[apart], level])
    resident = columns.resident[draft.program.use_tensor, level]
    # A tensor has one block of a level at a time.
    either = np.flatnonzero((here >= 0) & (resident >= 0))
    row = rows.new(len(either), -1)
    rows.add(row, here[either], -1)
    rows.add(row, resident[either], -1)
    # The first share of a copy includes what was done before the window.
    copied = np.flatnonzero(columns.copied[:, level] >= 0)
    _rising(draft, columns.copied[copied, level], (op - columns.window)[copied])
    row = rows.new(len(copied))
    rows.add(row, columns.copied[copied, level])
    rows.add(row, columns.early[copied, level], -1)
    # Only a result that is made here is written back; a graph output wholly, others as far as it is worth.
    sent = np.flatnonzero(columns.sent[:, level] >= 0)
    length = (uses.sent_by - uses.valid + 1)[sent]
    _rising(draft, columns.sent[sent, level], length)
    output = draft.program.tensor_kind[sent] == TensorKind.OUTPUT
    row = rows.new(len(sent), 0, np.where(output, 0, np.inf))
    rows.add(row, here[uses.first[sent]])
    rows.add(row, columns.sent[sent, level] + length - 1, -1)


def _add_moves(draft: Draft, level: int, source: int) -> None:
    """Add rows: a copy between fast levels reads a block that is there at the use before, or a resident weight's."""
    use = np.flatnonzero(draft.columns.moved[:, level, source] >= 0)
    op, before = draft.program.use_op[use], draft.uses.before[use]
    _rising(draft, draft.columns.moved[use, level, source], op - draft.columns.since[use])
    row = draft.rows.new(len(use))
    draft.rows.add(row, np.where(before >= 0, draft.columns.here[before, source], -1))
    draft.rows.add(row, draft.columns.resident[draft.program.use_tensor[use], source])
    draft.rows.add(row, draft.moved(use, level, source, op - 1), -1)


def _rising(draft: Draft, first: Ints, length: Ints) -> None:
    """Add rows: the share of a copy that is done does not decrease."""
    column = np.concatenate([np.arange(a, a + n - 1) for a, n in zip(first, length, strict=True)] or [first])
    row = draft.rows.new(len(column))
    draft.rows.add(row, column + 1)
    draft.rows.add(row, column, -1)


def add_data(draft: Draft) -> None:
    """Add rows: one level serves a use, a fast one where the backing memory may not hold the tensor; and a result of a
    fast level is in the backing memory as far as it was sent.
    """
    program, columns, rows = draft.program, draft.columns, draft.rows
    several = np.flatnonzero((columns.fast >= 0).sum(axis=1) > 1)
    row = rows.new(len(several), -1)
    for level in draft.levels:
        rows.add(row, columns.fast[several, level], -1)
    must = np.flatnonzero(draft.task.must_leave[program.use_tensor])
    rows.add(rows.new(len(must), 1)[:, None], columns.fast[must])
    # A use that no fast level serves needs the whole result in the backing memory by the op before.
    reads = np.flatnonzero((program.producer[program.use_tensor] >= 0) & ~program.use_is_result)
    row = _saved(draft, program.use_tensor[reads], program.use_op[reads] - 1, 0)
    for level in draft.levels:
        rows.add(row, columns.fast[reads, level])
    # Early copies end before their window, so they are at most what was sent two ops before its first op.
    early = reads[(columns.early[reads] >= 0).any(axis=1)]
    row = _saved(draft, program.use_tensor[early], columns.window[early] - 2, -1)
    for level in draft.levels:
        rows.add(row, columns.early[early, level], -1)
    for tensor in np.unique(program.use_tensor[reads]).tolist():
        _copies_of_a_result(draft, tensor)


def _saved(draft: Draft, tensor: Ints, op: Ints, lower: float) -> Ints:
    """Return new rows with the share of these tensors in the backing memory at the end of these ops, minus 1."""
    row = draft.rows.new(len(tensor), lower)
    for level in draft.levels:
        draft.rows.add(row, draft.columns.here[draft.uses.first[tensor], level], -1)
        draft.rows.add(row, draft.sent(tensor, level, op))
    return row


def _copies_of_a_result(draft: Draft, tensor: int) -> None:
    """Add rows: copies of a result follow its write-back, or wait for its end where `Detail.waits` says so."""
    copies = [use for use in draft.uses_of(tensor) if (draft.columns.copied[use] >= 0).any()]
    if not copies:
        return
    op = np.arange(draft.columns.window[copies].min(), draft.program.use_op[copies[-1]])
    waits = np.array([(tensor, t) in draft.detail.waits for t in op.tolist()])
    for level in draft.levels:
        row = _saved(draft, np.full((~waits).sum(), tensor), op[~waits] - 1, -1)
        _add_copies(draft, row, copies, level, op[~waits], -1)
    # A switch is 1 while copies may be under way, which it may be only once the result is wholly written back.
    if waits.any():
        switch = draft.new_switches(op[waits])
        draft.rows.add(_saved(draft, np.full(len(switch), tensor), op[waits] - 1, -1), switch, -1)
        for level in draft.levels:
            row = draft.rows.new(len(switch))
            draft.rows.add(row, switch)
            _add_copies(draft, row, copies, level, op[waits], -1)


def _add_copies(draft: Draft, row: Ints, copies: list[int], level: int, op: Ints, value: float) -> None:
    """Add to the rows the shares of these copies that are done by the end of each op, while they are under way."""
    for use in copies:
        under_way = op < draft.program.use_op[use]
        draft.rows.add(row, np.where(under_way, draft.copied(np.full(len(op), use), level, op), -1), value)
