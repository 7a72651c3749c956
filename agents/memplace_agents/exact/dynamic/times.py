"""Rows for time: the time of each op, and copies and write-backs beside the ops in the backing memory's port."""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.dynamic.draft import Draft
from memplace_agents.exact.highs import Floats
from memplace_env.program.program import Ints


def add_op_times(draft: Draft) -> None:
    """Add rows: an op takes its ports' time; copies and write-backs fit beside its own time of the backing port."""
    program, costs, columns, rows = draft.program, draft.costs, draft.columns, draft.rows
    op, use_ps, backing = program.use_op, costs.use_ps / draft.unit, draft.task.backing
    ops, overhead = np.arange(program.num_ops), costs.overhead_ps / draft.unit
    # Rows begin with everything read from the backing memory; each use served from a fast level moves its time exists.
    all_backing = np.bincount(op, use_ps[:, backing], program.num_ops)
    # waits[l] are the rows time >= overhead + port l; serial ports share one row, in which their times add up.
    if costs.serial:
        waits = [rows.new(program.num_ops, overhead + all_backing)] * (backing + 1)
    else:
        waits = [rows.new(program.num_ops, overhead) for _ in draft.levels]
        waits.append(rows.new(program.num_ops, overhead + all_backing))
    # port[t]: time - spare >= what uses and flows take of the backing port in op t; the last row is the tail.
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
        # A level is touched if it serves a use.
        touch = columns.touches[op, level]
        exists = np.flatnonzero((touch >= 0) & (fast >= 0))
        row = rows.new(len(exists))
        rows.add(row, touch[exists])
        rows.add(row, fast[exists], -1)
    # The backing memory is touched if no fast level serves a use.
    touch = columns.touches[op, backing]
    exists = np.flatnonzero(touch >= 0)
    row = rows.new(len(exists), 1)
    rows.add(row, touch[exists])
    for level in draft.levels:
        rows.add(row, columns.fast[exists, level])
    for level in range(backing + 1):
        rows.add(waits[level], columns.touches[:, level], -costs.latency_ps[level] / draft.unit)
    rows.add(port[:-1], columns.touches[:, backing], -costs.latency_ps[backing] / draft.unit)
    _bank(draft, ops)
    for slow in draft.sources:
        _add_moves(draft, slow)


def _add_moves(draft: Draft, slow: int) -> None:
    """Add rows: copies between a fast level and faster ones fit beside the ops' own time of its port."""
    program, columns, use_ps = draft.program, draft.columns, draft.costs.use_ps[:, slow] / draft.unit
    port = draft.rows.new(program.num_ops)
    draft.rows.add(port, columns.time[:-1])
    draft.rows.add(port[program.use_op], columns.fast[:, slow], -use_ps)
    draft.rows.add(port, columns.touches[:, slow], -draft.costs.latency_ps[slow] / draft.unit)
    tensor = program.use_tensor
    for source, target in [(slow, near) for near in range(slow)] + [(near, slow) for near in range(slow)]:
        demand = draft.task.copy_ps(tensor, np.full_like(tensor, source), np.full_like(tensor, target)) / draft.unit
        first = columns.moved[:, target, source]
        _flows(draft, port, first, columns.since, program.use_op - columns.since, None, demand)


def _flows(
    draft: Draft, port: Ints, first: Ints, begin: Ints, length: Ints, early: Ints | None, demand: Floats
) -> None:
    """Add to each op's port row the part of a flow done in it: the difference of two shares, times the demand."""
    which = np.flatnonzero(first >= 0)
    # Column i is the share done by the end of op begin + i, so it counts in that op and is taken off in the next.
    for item in which.tolist():
        op = begin[item] + np.arange(length[item])
        column = first[item] + np.arange(length[item])
        draft.rows.add(port[op], column, -demand[item])
        draft.rows.add(port[op[1:]], column[:-1], demand[item])
    # What was copied before the window costs nothing in it.
    if early is not None:
        draft.rows.add(port[begin[which]], early[which], demand[which])


def _bank(draft: Draft, ops: Ints) -> None:
    """Add rows: early copies use the port time that earlier ops have left."""
    columns, rows = draft.columns, draft.rows
    if columns.bank[0] < 0:
        return
    # bank[t] <= bank[t-1] + spare[t-1] - early copies whose window begins at t: nothing is spent before it was left.
    row = rows.new(len(ops))
    rows.add(row, columns.bank, -1)
    rows.add(row[1:], columns.bank[:-1])
    rows.add(row[1:], columns.spare[:-1])
    demand = draft.costs.prefetch_ps[draft.program.use_tensor] / draft.unit
    for level in draft.levels:
        early = np.flatnonzero(columns.early[:, level] >= 0)
        rows.add(row[columns.window[early]], columns.early[early, level], -demand[early])
