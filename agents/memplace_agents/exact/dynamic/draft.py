"""A linear program to which rows and columns are being added."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from memplace_agents.exact.dynamic.columns import number_columns, uses_of
from memplace_agents.exact.dynamic.detail import Detail, WeighedRow
from memplace_agents.exact.highs import LATENCY
from memplace_agents.exact.rows import RowBuilder
from memplace_env.machine.costs import op_times
from memplace_env.placement.compiler import native_report
from memplace_env.placement.roles import without_penalties
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class Draft:
    """The unfinished program.

    Attributes:
        task, program, costs: the problem; costs are those without penalties, see `roles`.
        detail: parts that are modelled by integers.
        uses, columns: times of the tensors, and the columns of the decisions.
        levels: the fast levels; `sources`: those from which tensors are copied to others.
        rows: rows so far.
        op: the op of each column so far, see `Columns.op`, in parts.
        weighed: the row of each entry of `Detail.weighed` so far.
        total: number of columns so far.
        switches: binary columns among those that were added.
        unit: picoseconds of one unit.
        longest: latency with everything in the backing memory, or native's where that may not be, in units.
    """

    def __init__(self, task: Task, detail: Detail) -> None:
        self.task, self.detail, self.uses = task, detail, uses_of(task)
        self.program, self.costs = task.program, without_penalties(task.costs, task.program, task.allowed)
        self.columns = number_columns(task, self.uses, detail.window(task, self.uses))
        self.levels, self.rows = range(task.backing), RowBuilder()
        self.sources = range(task.backing * task.fast_copies)
        self.total, self.op = self.columns.total, [self.columns.op]
        self.weighed: dict[WeighedRow, int] = {}
        self.switches: list[int] = []
        used = np.zeros((self.program.num_ops, task.backing + 1), dtype=np.int64)
        np.add.at(used[:, -1], self.program.use_op, self.costs.use_ps[:, -1])
        longest = float(op_times(self.costs, used).op_ps.sum())
        if task.must_leave.any():
            longest = float(native_report(task).latency_ps)
        self.unit = max(longest / LATENCY, 1.0)
        self.longest = longest / self.unit

    def new_columns(self, op: Ints) -> Ints:
        """Add a column for each of these ops and return their numbers."""
        self.total += len(op)
        self.op.append(op)
        return np.arange(self.total - len(op), self.total)

    def new_switches(self, op: Ints) -> Ints:
        """Add a binary column for each of these ops and return their numbers."""
        columns = self.new_columns(op)
        self.switches += columns.tolist()
        return columns

    def uses_of(self, tensor: int) -> Iterator[int]:
        """Yield the uses of a tensor in order."""
        use = int(self.uses.first[tensor])
        while use >= 0:
            yield use
            use = int(self.uses.after[use])

    def copied(self, use: Ints, level: int, op: Ints) -> Ints:
        """Return the columns of the share of copies that is done by the end of these ops, -1 before their window."""
        first, begin = self.columns.copied[use, level], self.columns.window[use]
        return np.where((first >= 0) & (op >= begin), first + op - begin, -1)

    def moved(self, use: Ints, level: int, source: int, op: Ints) -> Ints:
        """Return the columns of the share of copies from a fast level that is done then, -1 before the use before."""
        first, begin = self.columns.moved[use, level, source], self.columns.since[use]
        return np.where((first >= 0) & (op >= begin), first + op - begin, -1)

    def last_moves(self) -> Ints:
        """Return the columns that say whether a tensor is copied from one fast level to another, int64[N]."""
        use, level, source = np.nonzero(self.columns.moved >= 0)
        last: Ints = self.columns.moved[use, level, source] + (self.program.use_op - self.columns.since)[use] - 1
        return last

    def sent(self, tensor: Ints, level: int, op: Ints) -> Ints:
        """Return the columns of the share of write-backs that is done by the end of these ops, -1 for nothing yet."""
        first, begin = self.columns.sent[tensor, level], self.uses.valid[tensor]
        return np.where((first >= 0) & (op >= begin), first + np.minimum(op, self.uses.sent_by[tensor]) - begin, -1)
