"""Plans that move tensors while the program runs, as a mixed-integer linear program.

Time is cut into ops. With the columns of `columns.Columns`, u_0 < u_1 < ... the uses of a tensor (u_0 makes it, if
anything does), in each fast level l:

    a block       here[u] = stay[u] + copied[u] at the end of the op before u,   stay[u_i] <= here[u_{i-1}]
    its data      sent at the end <= here[u_0], equal for graph outputs; a result that is made in a fast level is in the
                  backing memory as far as it has been sent: neither reads from there nor copies get ahead of that
    room          in each op, blocks that stay or are used, copies on their way in (whole blocks, of which a linear
                  program sees the share that has arrived), and results that are not yet sent wholly: together at most
                  the level's capacity less what the op reserves
    an op         time >= what it computes, and what the ports take by the cost table, added up if they are serial
    the port      of the backing memory: what the op's uses, copies in and write-backs take of it <= time

The sum of the times is the latency. Every valid plan fits: give each column what the plan does; copies that an op waits
for belong to the time of the op before. So what the program proves holds for all plans. Its other half is `extract`:
where the shares are whole the answer is a plan of the same latency, apart from addresses.

Where windows are cut off at a horizon, what is copied earlier takes no room and may use any port time that earlier ops
have left: still a bound for all plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from agents.exact.dynamic.columns import Columns, Uses, number_columns, uses_of
from agents.exact.highs import Floats, LinearProgram
from agents.exact.rows import RowBuilder
from memplace_env.costs import op_times
from memplace_env.task import Task
from memplace_env.workload.program import Ints, TensorKind

HORIZON = 1e4
"""Latency with everything in the backing memory, in the units of the program: far above the solver's tolerances."""
CAPACITY = 1e3
"""What a level holds, in the units of its rows."""


@dataclass(frozen=True)
class Whole:
    """What of an answer has to be whole, as it was broken: tuples (use or tensor, level, op).

    Attributes:
        copies: a started copy has its whole block.
        sends: a write-back that is not done keeps its whole block.
        waits: no copy before the write-back has ended; (tensor, op), whatever the level.
    """

    copies: frozenset[tuple[int, int, int]] = frozenset()
    sends: frozenset[tuple[int, int, int]] = frozenset()
    waits: frozenset[tuple[int, int]] = frozenset()

    def __or__(self, other: Whole) -> Whole:
        return Whole(self.copies | other.copies, self.sends | other.sends, self.waits | other.waits)

    def __len__(self) -> int:
        return len(self.copies) + len(self.sends) + len(self.waits)


class Model(NamedTuple):
    """A linear program and what its columns mean; see the module for the mathematics.

    Attributes:
        task, uses, columns: what it is about.
        program: minimise the latency.
        unit_ps: picoseconds of one unit of it.
        whole: what is whole in it.
    """

    task: Task
    uses: Uses
    columns: Columns
    program: LinearProgram
    unit_ps: float
    whole: Whole

    def copying(self, use: int, level: int) -> slice:
        """Columns of the copy for a use, which has one."""
        first = self.columns.copied[use, level]
        return slice(first, first + self.task.program.use_op[use] - self.columns.window[use])

    def sending(self, tensor: int, level: int) -> slice:
        """Columns of a tensor's write-back, which has one."""
        first = self.columns.sent[tensor, level]
        return slice(first, first + self.uses.sent_by[tensor] - self.uses.valid[tensor] + 1)


def build(task: Task, whole: Whole = Whole(), horizon: int | None = None) -> Model:
    """The program of the module's docstring."""
    return _Builder(task, whole, horizon).model()


class _Builder:
    """The rows of one program."""

    def __init__(self, task: Task, whole: Whole, horizon: int | None) -> None:
        self.task, self.whole, self.uses = task, whole, uses_of(task)
        self.program, self.costs = task.program, task.costs
        self.columns = number_columns(task, self.uses, horizon)
        self.levels, self.rows = range(task.backing), RowBuilder()
        self.total = self.columns.total
        all_backing = np.bincount(self.program.use_op, self.costs.use_ps[:, -1], self.program.num_ops)
        self.unit = max(float(np.maximum(self.costs.compute_ps, all_backing).sum()) / HORIZON, 1.0)
        self.switches: list[int] = []

    def model(self) -> Model:
        columns = self.columns
        for level in self.levels:
            self._blocks(level)
            self._room(level)
        self._data()
        self._op_times()
        matrix, row_lower, row_upper = self.rows.matrix(self.total)
        cost, lower, upper = np.zeros(self.total), np.zeros(self.total), np.ones(self.total)
        cost[columns.time] = 1
        lower[columns.time[:-1]] = (self.costs.compute_ps + self.costs.overhead_ps) / self.unit
        endless = [columns.time, columns.bank[columns.bank >= 0], columns.spare[columns.spare >= 0]]
        # No plan takes longer than one that moves nothing, so no op and no wait of a plan worth having does.
        upper[np.concatenate(endless)] = self._longest()
        binary = np.zeros(self.total, dtype=bool)
        for part in (columns.resident, columns.here, columns.fast, columns.stay):
            binary[part[part >= 0]] = True
        binary[self.switches] = True
        program = LinearProgram(cost, lower, upper, binary, matrix, row_lower, row_upper)
        return Model(self.task, self.uses, columns, program, self.unit, self.whole)

    def _longest(self) -> float:
        """Latency with everything in the backing memory, in units."""
        used = np.zeros((self.program.num_ops, self.task.backing + 1), dtype=np.int64)
        np.add.at(used[:, -1], self.program.use_op, self.costs.use_ps[:, -1])
        return float(op_times(self.costs, used).op_ps.sum()) / self.unit

    def _switch(self) -> int:
        self.switches.append(self.total)
        self.total += 1
        return self.total - 1

    def _blocks(self, level: int) -> None:
        """Where blocks come from, that flows do not turn back, and that a use is served from a block."""
        uses, columns, rows, op = self.uses, self.columns, self.rows, self.program.use_op
        here, stay, fast = columns.here[:, level], columns.stay[:, level], columns.fast[:, level]
        operand = np.flatnonzero((here >= 0) & ~self.program.use_is_result)
        row = rows.new(len(operand), 0, 0)
        rows.add(row, here[operand])
        rows.add(row, stay[operand], -1)
        rows.add(row, self._copied(operand, level, op[operand] - 1), -1)
        staying = np.flatnonzero(stay >= 0)
        row = rows.new(len(staying))
        rows.add(row, here[uses.before[staying]])
        rows.add(row, stay[staying], -1)
        apart = np.flatnonzero((fast >= 0) & (fast != here))
        row = rows.new(len(apart))
        rows.add(row, fast[apart], -1)
        rows.add(row, here[apart])
        rows.add(row, columns.resident[self.program.use_tensor[apart], level])
        copied = np.flatnonzero(columns.copied[:, level] >= 0)
        self._rising(columns.copied[copied, level], (op - columns.window)[copied])
        row = rows.new(len(copied))
        rows.add(row, columns.copied[copied, level])
        rows.add(row, columns.early[copied, level], -1)
        sent = np.flatnonzero(columns.sent[:, level] >= 0)
        length = (uses.sent_by - uses.valid + 1)[sent]
        self._rising(columns.sent[sent, level], length)
        output = self.program.tensor_kind[sent] == TensorKind.OUTPUT
        row = rows.new(len(sent), 0, np.where(output, 0, np.inf))
        rows.add(row, here[uses.first[sent]])
        rows.add(row, columns.sent[sent, level] + length - 1, -1)

    def _rising(self, first: Ints, length: Ints) -> None:
        """Shares of a flow do not decrease."""
        column = np.concatenate([np.arange(a, a + n - 1) for a, n in zip(first, length, strict=True)] or [first])
        row = self.rows.new(len(column))
        self.rows.add(row, column + 1)
        self.rows.add(row, column, -1)

    def _copied(self, use: Ints, level: int, op: Ints) -> Ints:
        """Columns of the share of these copies that is done by the end of these ops, -1 where none is."""
        first, begin = self.columns.copied[use, level], self.columns.window[use]
        return np.where((first >= 0) & (op >= begin), first + op - begin, -1)

    def _sent(self, tensor: Ints, level: int, op: Ints) -> Ints:
        """Likewise of write-backs."""
        first, begin = self.columns.sent[tensor, level], self.uses.valid[tensor]
        return np.where((first >= 0) & (op >= begin), first + np.minimum(op, self.uses.sent_by[tensor]) - begin, -1)

    def _data(self) -> None:
        """What was made in a fast level is in the backing memory as far as it was sent."""
        program, columns, rows = self.program, self.columns, self.rows
        reads = np.flatnonzero((program.producer[program.use_tensor] >= 0) & ~program.use_is_result)
        row = self._saved(program.use_tensor[reads], program.use_op[reads] - 1, 0)
        for level in self.levels:
            rows.add(row, columns.fast[reads, level])
        early = reads[(columns.early[reads] >= 0).any(axis=1)]
        row = self._saved(program.use_tensor[early], columns.window[early] - 2, -1)
        for level in self.levels:
            rows.add(row, columns.early[early, level], -1)
        for tensor in np.unique(program.use_tensor[reads]).tolist():
            self._copies_of_a_result(tensor)

    def _saved(self, tensor: Ints, op: Ints, lower: float) -> Ints:
        """New rows, which hold what the backing memory has of these tensors at the end of these ops, less 1."""
        row = self.rows.new(len(tensor), lower)
        for level in self.levels:
            self.rows.add(row, self.columns.here[self.uses.first[tensor], level], -1)
            self.rows.add(row, self._sent(tensor, level, op))
        return row

    def _copies_of_a_result(self, tensor: int) -> None:
        """They follow its write-back; where that is to be whole, they wait for its end."""
        copies = [use for use in self._uses_of(tensor) if (self.columns.copied[use] >= 0).any()]
        if not copies:
            return
        op = np.arange(self.columns.window[copies].min(), self.program.use_op[copies[-1]])
        waits = np.array([(tensor, t) in self.whole.waits for t in op.tolist()])
        for level in self.levels:
            row = self._saved(np.full((~waits).sum(), tensor), op[~waits] - 1, -1)
            self._add_copies(row, copies, level, op[~waits], -1)
        if waits.any():
            switch = np.array([self._switch() for _ in range(waits.sum())])
            self.rows.add(self._saved(np.full(len(switch), tensor), op[waits] - 1, -1), switch, -1)
            for level in self.levels:
                row = self.rows.new(len(switch))
                self.rows.add(row, switch)
                self._add_copies(row, copies, level, op[waits], -1)

    def _add_copies(self, row: Ints, copies: list[int], level: int, op: Ints, value: float) -> None:
        """The shares of these copies that are done by the end of each op, for as long as they are under way."""
        for use in copies:
            under_way = op < self.program.use_op[use]
            self.rows.add(row, np.where(under_way, self._copied(np.full(len(op), use), level, op), -1), value)

    def _uses_of(self, tensor: int) -> Iterator[int]:
        use = int(self.uses.first[tensor])
        while use >= 0:
            yield use
            use = int(self.uses.after[use])

    def _room(self, level: int) -> None:
        """No op holds more than the level."""
        program, columns = self.program, self.columns
        memory = self.task.accelerator.levels[level].capacity_bytes
        scale = CAPACITY / memory
        reserved = np.append(self.costs.reserved_bytes[:, level], 0)
        room = self.rows.new(program.num_ops + 1, -CAPACITY + reserved * scale)
        weights = np.flatnonzero(columns.resident[:, level] >= 0)
        column, row = columns.resident[weights, level], room[:-1]
        share = np.repeat(-scale * program.tensor_bytes[weights], len(row))
        self.rows.add(np.tile(row, len(weights)), np.repeat(column, len(row)), share)
        for tensor in range(program.num_tensors):
            for op, column in self._occupants(tensor, level):
                self.rows.add(room[op], column, -scale * program.tensor_bytes[tensor])

    def _occupants(self, tensor: int, level: int) -> Iterator[tuple[Ints, Ints]]:
        """Ops, and columns of shares of the tensor that the level holds then; they add up to 1 at most."""
        uses, columns, op_of = self.uses, self.columns, self.program.use_op
        mine = [use for use in self._uses_of(tensor) if columns.here[use, level] >= 0]
        if not mine:
            return
        parts = [(op_of[mine], columns.here[mine, level])]
        for use in mine:
            if columns.stay[use, level] >= 0:
                between = np.arange(op_of[uses.before[use]] + 1, op_of[use])
                parts.append((between, np.full(len(between), columns.stay[use, level])))
        flows = [self._copy_in(use, level) for use in mine if columns.copied[use, level] >= 0]
        sends = columns.sent[tensor, level] >= 0
        if not sends and not flows:
            yield from parts
            return
        first = min(int(op[0]) for op, _ in [*parts, *flows] if len(op))
        last = max(int(op_of[mine[-1]]), int(uses.sent_by[tensor]) if sends else 0)
        if not sends and len(mine) == 1:
            yield from [*parts, *flows]
            return
        # One column for each op, so that a block that stays and one that is sent count once.
        span = np.arange(first, last + 1)
        held = self.total + span - first
        self.total += len(span)
        row = self.rows.new(len(span))
        self.rows.add(row, held)
        for op, column in [*parts, *flows]:
            self.rows.add(row[op - first], column, -1)
        if sends:
            sending = np.arange(uses.valid[tensor], uses.sent_by[tensor] + 1)
            row = self._sending(tensor, level, sending)
            self.rows.add(row, held[sending - first])
            for op, column in flows:
                inside = (op >= sending[0]) & (op <= sending[-1])
                self.rows.add(row[op[inside] - sending[0]], column[inside], -1)
        yield span, held

    def _sending(self, tensor: int, level: int, op: Ints) -> Ints:
        """New rows: what the block of a write-back still has to hold of the tensor, taken from them."""
        tensors = np.full(len(op), tensor)
        switched = np.array([(tensor, level, t) in self.whole.sends for t in op.tolist()])
        row = self.rows.new(len(op))
        inner = row.copy()
        if switched.any():
            switch = np.array([self._switch() for _ in range(switched.sum())])
            self.rows.add(row[switched], switch, -1)
            inner[switched] = self.rows.new(len(switch))
            self.rows.add(inner[switched], switch)
        self.rows.add(inner, self._sent(tensors, level, np.full(len(op), self.uses.sent_by[tensor])), -1)
        self.rows.add(inner, self._sent(tensors, level, op - 1))
        return row

    def _copy_in(self, use: int, level: int) -> tuple[Ints, Ints]:
        """Ops during which a copy is under way, and columns of the share of its block that counts."""
        op = np.arange(self.columns.window[use], self.program.use_op[use])
        column = self.columns.copied[use, level] + np.arange(len(op))
        switched = np.array([(use, level, t) in self.whole.copies for t in op.tolist()])
        if switched.any():
            switch = np.array([self._switch() for _ in range(switched.sum())])
            row = self.rows.new(len(switch))
            self.rows.add(row, switch)
            self.rows.add(row, column[switched], -1)
            column = np.where(switched, -1, column)
            column[switched] = switch
        return op, column

    def _op_times(self) -> None:
        """Each op takes its ports' time, and its flows fit beside what it takes of the backing port."""
        program, costs, columns, rows = self.program, self.costs, self.columns, self.rows
        op, use_ps, backing = program.use_op, costs.use_ps / self.unit, self.task.backing
        ops, overhead = np.arange(program.num_ops), costs.overhead_ps / self.unit
        all_backing = np.bincount(op, use_ps[:, backing], program.num_ops)
        if costs.serial:
            waits = [rows.new(program.num_ops, overhead + all_backing)] * (backing + 1)
        else:
            waits = [rows.new(program.num_ops, overhead) for _ in self.levels]
            waits.append(rows.new(program.num_ops, overhead + all_backing))
        port = np.append(rows.new(program.num_ops, all_backing), rows.new(1))
        for row in [waits[0]] if costs.serial else waits:
            rows.add(row, columns.time[:-1])
        rows.add(port, columns.time)
        rows.add(port[:-1], columns.spare, -1)
        for level in self.levels:
            fast = columns.fast[:, level]
            rows.add(waits[level][op], fast, -use_ps[:, level])
            rows.add(waits[backing][op], fast, use_ps[:, backing])
            rows.add(port[op], fast, use_ps[:, backing])
            self._flows(
                port,
                columns.copied[:, level],
                columns.window,
                op - columns.window,
                columns.early[:, level],
                costs.prefetch_ps[program.use_tensor] / self.unit,
            )
            self._flows(
                port,
                columns.sent[:, level],
                self.uses.valid,
                self.uses.sent_by - self.uses.valid + 1,
                None,
                costs.writeback_ps / self.unit,
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
        for level in self.levels:
            rows.add(row, columns.fast[there, level])
        for level in range(backing + 1):
            rows.add(waits[level], columns.touches[:, level], -costs.latency_ps[level] / self.unit)
        rows.add(port[:-1], columns.touches[:, backing], -costs.latency_ps[backing] / self.unit)
        self._bank(ops)

    def _flows(self, port: Ints, first: Ints, begin: Ints, length: Ints, early: Ints | None, demand: Floats) -> None:
        """Take from the port of each op what flows do in it."""
        which = np.flatnonzero(first >= 0)
        for item in which.tolist():
            op = begin[item] + np.arange(length[item])
            column = first[item] + np.arange(length[item])
            self.rows.add(port[op], column, -demand[item])
            self.rows.add(port[op[1:]], column[:-1], demand[item])
        if early is not None:
            self.rows.add(port[begin[which]], early[which], demand[which])

    def _bank(self, ops: Ints) -> None:
        """Early copies use port time that was left before."""
        columns, rows = self.columns, self.rows
        if columns.bank[0] < 0:
            return
        row = rows.new(len(ops))
        rows.add(row, columns.bank, -1)
        rows.add(row[1:], columns.bank[:-1])
        rows.add(row[1:], columns.spare[:-1])
        demand = self.costs.prefetch_ps[self.program.use_tensor] / self.unit
        for level in self.levels:
            rows.add(row[columns.window], columns.early[:, level], -demand)
