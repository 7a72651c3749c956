"""Rows about time: what ops take, and that copies and write-backs fit beside them into the backing memory's port."""

from __future__ import annotations

import numpy as np

from agents.exact.dynamic.draft import Draft
from agents.exact.highs import Floats
from memplace_env.workload.program import Ints


def add_op_times(draft: Draft) -> None:
    """Each op takes its ports' time, and its flows fit beside what it takes of the backing port."""
    program, costs, columns, rows = draft.program, draft.costs, draft.columns, draft.rows
    op, use_ps, backing = program.use_op, costs.use_ps / draft.unit, draft.task.backing
    ops, overhead = np.arange(program.num_ops), costs.overhead_ps / draft.unit
    all_backing = np.bincount(op, use_ps[:, backing], program.num_ops)
    if costs.serial:
        waits = [rows.new(program.num_ops, overhead + all_backing)] * (backing + 1)
    else:
        waits = [rows.new(program.num_ops, overhead) for _ in draft.levels]
        waits.append(rows.new(program.num_ops, overhead + all_backing))
    port = np.append(rows.new(program.num_ops, all_backing), rows.new(1))
    for row in [waits[0]] if costs.serial else waits:
        rows.add(row, columns.time[:-1])
    rows.add(port, columns.time)
    rows.add(port[:-1], columns.spare, -1)
    for level in draft.levels:
        fast = columns.fast[:, level]
        rows.add(waits[level][op], fast, -use_ps[:, level])
        rows.add(waits[backing][op], fast, use_ps[:, backing])
        rows.add(port[op], fast, use_ps[:, backing])
        _flows(
            draft,
            port,
            columns.copied[:, level],
            columns.window,
            op - columns.window,
            columns.early[:, level],
            costs.prefetch_ps[program.use_tensor] / draft.unit,
        )
        _flows(
            draft,
            port,
            columns.sent[:, level],
            draft.uses.valid,
            draft.uses.sent_by - draft.uses.valid + 1,
            None,
            costs.writeback_ps / draft.unit,
        )
        touch = columns.touches[op, level]
        there = np.flatnonzero((touch >= 0) & (fast >= 0))
        row = rows.new(len(there))
        rows.add(row, touch[there])
        rows.add(row, fast[there], -1)
    touch = columns.touches[op, backing]
    there = np.flatnonzero(touch >= 0)
    row = rows.new(len(there), 1)
    rows.add(row, touch[there])
    for level in draft.levels:
        rows.add(row, columns.fast[there, level])
    for level in range(backing + 1):
        rows.add(waits[level], columns.touches[:, level], -costs.latency_ps[level] / draft.unit)
    rows.add(port[:-1], columns.touches[:, backing], -costs.latency_ps[backing] / draft.unit)
    _bank(draft, ops)


def _flows(
    draft: Draft, port: Ints, first: Ints, begin: Ints, length: Ints, early: Ints | None, demand: Floats
) -> None:
    """Take from the port of each op what flows do in it."""
    which = np.flatnonzero(first >= 0)
    for item in which.tolist():
        op = begin[item] + np.arange(length[item])
        column = first[item] + np.arange(length[item])
        draft.rows.add(port[op], column, -demand[item])
        draft.rows.add(port[op[1:]], column[:-1], demand[item])
    if early is not None:
        draft.rows.add(port[begin[which]], early[which], demand[which])


def _bank(draft: Draft, ops: Ints) -> None:
    """Early copies use port time that was left before."""
    columns, rows = draft.columns, draft.rows
    if columns.bank[0] < 0:
        return
    row = rows.new(len(ops))
    rows.add(row, columns.bank, -1)
    rows.add(row[1:], columns.bank[:-1])
    rows.add(row[1:], columns.spare[:-1])
    demand = draft.costs.prefetch_ps[draft.program.use_tensor] / draft.unit
    for level in draft.levels:
        early = np.flatnonzero(columns.early[:, level] >= 0)
        rows.add(row[columns.window[early]], columns.early[early, level], -demand[early])
