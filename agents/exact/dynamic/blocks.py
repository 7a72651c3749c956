"""Rows about blocks: where they come from, what they serve, and what the backing memory holds meanwhile."""

from __future__ import annotations

import numpy as np

from agents.exact.dynamic.draft import Draft
from memplace_env.workload.program import Ints, TensorKind


def add_blocks(draft: Draft, level: int) -> None:
    """Where blocks come from, that flows do not turn back, and that a use is served from a block."""
    uses, columns, rows, op = draft.uses, draft.columns, draft.rows, draft.program.use_op
    here, stay, fast = columns.here[:, level], columns.stay[:, level], columns.fast[:, level]
    operand = np.flatnonzero((here >= 0) & ~draft.program.use_is_result)
    row = rows.new(len(operand), 0, 0)
    rows.add(row, here[operand])
    rows.add(row, stay[operand], -1)
    rows.add(row, draft.copied(operand, level, op[operand] - 1), -1)
    staying = np.flatnonzero(stay >= 0)
    row = rows.new(len(staying))
    rows.add(row, here[uses.before[staying]])
    rows.add(row, stay[staying], -1)
    apart = np.flatnonzero((fast >= 0) & (fast != here))
    row = rows.new(len(apart))
    rows.add(row, fast[apart], -1)
    rows.add(row, here[apart])
    rows.add(row, columns.resident[draft.program.use_tensor[apart], level])
    resident = columns.resident[draft.program.use_tensor, level]
    either = np.flatnonzero((here >= 0) & (resident >= 0))
    row = rows.new(len(either), -1)
    rows.add(row, here[either], -1)
    rows.add(row, resident[either], -1)
    copied = np.flatnonzero(columns.copied[:, level] >= 0)
    _rising(draft, columns.copied[copied, level], (op - columns.window)[copied])
    row = rows.new(len(copied))
    rows.add(row, columns.copied[copied, level])
    rows.add(row, columns.early[copied, level], -1)
    sent = np.flatnonzero(columns.sent[:, level] >= 0)
    length = (uses.sent_by - uses.valid + 1)[sent]
    _rising(draft, columns.sent[sent, level], length)
    output = draft.program.tensor_kind[sent] == TensorKind.OUTPUT
    row = rows.new(len(sent), 0, np.where(output, 0, np.inf))
    rows.add(row, here[uses.first[sent]])
    rows.add(row, columns.sent[sent, level] + length - 1, -1)


def _rising(draft: Draft, first: Ints, length: Ints) -> None:
    """Shares of a flow do not decrease."""
    column = np.concatenate([np.arange(a, a + n - 1) for a, n in zip(first, length, strict=True)] or [first])
    row = draft.rows.new(len(column))
    draft.rows.add(row, column + 1)
    draft.rows.add(row, column, -1)


def add_data(draft: Draft) -> None:
    """One level serves a use, and what was made in a fast one is in the backing memory as far as it was sent."""
    program, columns, rows = draft.program, draft.columns, draft.rows
    several = np.flatnonzero((columns.fast >= 0).sum(axis=1) > 1)
    row = rows.new(len(several), -1)
    for level in draft.levels:
        rows.add(row, columns.fast[several, level], -1)
    reads = np.flatnonzero((program.producer[program.use_tensor] >= 0) & ~program.use_is_result)
    row = _saved(draft, program.use_tensor[reads], program.use_op[reads] - 1, 0)
    for level in draft.levels:
        rows.add(row, columns.fast[reads, level])
    early = reads[(columns.early[reads] >= 0).any(axis=1)]
    row = _saved(draft, program.use_tensor[early], columns.window[early] - 2, -1)
    for level in draft.levels:
        rows.add(row, columns.early[early, level], -1)
    for tensor in np.unique(program.use_tensor[reads]).tolist():
        _copies_of_a_result(draft, tensor)


def _saved(draft: Draft, tensor: Ints, op: Ints, lower: float) -> Ints:
    """New rows, which hold what the backing memory has of these tensors at the end of these ops, less 1."""
    row = draft.rows.new(len(tensor), lower)
    for level in draft.levels:
        draft.rows.add(row, draft.columns.here[draft.uses.first[tensor], level], -1)
        draft.rows.add(row, draft.sent(tensor, level, op))
    return row


def _copies_of_a_result(draft: Draft, tensor: int) -> None:
    """They follow its write-back; where that is to be whole, they wait for its end."""
    copies = [use for use in draft.uses_of(tensor) if (draft.columns.copied[use] >= 0).any()]
    if not copies:
        return
    op = np.arange(draft.columns.window[copies].min(), draft.program.use_op[copies[-1]])
    waits = np.array([(tensor, t) in draft.detail.waits for t in op.tolist()])
    for level in draft.levels:
        row = _saved(draft, np.full((~waits).sum(), tensor), op[~waits] - 1, -1)
        _add_copies(draft, row, copies, level, op[~waits], -1)
    if waits.any():
        switch = draft.new_switches(int(waits.sum()))
        draft.rows.add(_saved(draft, np.full(len(switch), tensor), op[waits] - 1, -1), switch, -1)
        for level in draft.levels:
            row = draft.rows.new(len(switch))
            draft.rows.add(row, switch)
            _add_copies(draft, row, copies, level, op[waits], -1)


def _add_copies(draft: Draft, row: Ints, copies: list[int], level: int, op: Ints, value: float) -> None:
    """The shares of these copies that are done by the end of each op, for as long as they are under way."""
    for use in copies:
        under_way = op < draft.program.use_op[use]
        draft.rows.add(row, np.where(under_way, draft.copied(np.full(len(op), use), level, op), -1), value)
