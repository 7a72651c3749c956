"""A valid plan as a solution of the program of `dynamic_model`, without solving anything."""

from __future__ import annotations

import numpy as np

from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel
from memplace_agents.exact.highs import FEASIBLE, Floats
from memplace_env.machine.costs import op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.builtin import ordered_copies
from memplace_env.placement.task import Task

PASSES = 3
"""Most columns that depend on each other in turn: a share, its switch, and the column of the block that it is in."""


def values_of_plan(model: DynamicModel, plan: MemoryPlan) -> Floats:
    """Return the solution that gives each column what the plan does, float64[C].

    Copies that an op waits for belong to the time of the op before. It is no solution where a copy begins before its
    window: see `LinearProgram.holds`.
    """
    task, columns, program = model.task, model.columns, model.program
    decisions = Decisions.of_plan(task, plan)
    values = np.zeros(len(program.cost))
    for part, chosen in (
        (columns.resident, decisions.resident),
        (columns.fast, decisions.fast),
        (columns.here, decisions.here),
        (columns.stay, decisions.stay),
    ):
        values[part[part >= 0]] = chosen[part >= 0]
    copies = _Copies(task, plan)
    values[columns.time] = copies.time_ps / model.unit_ps
    begins = decisions.here & ~decisions.stay
    for transfer, (tensor, source, target, _, end) in enumerate(plan.transfers.tolist()):
        if target == task.backing:
            if columns.sent[tensor, source] >= 0:
                first, last = model.uses.valid[tensor], model.uses.sent_by[tensor]
                values[model.sending(tensor, source)] = copies.shares(transfer, first, last)
            continue
        # The copy is for the first use behind it that begins a block.
        use = int(model.uses.first[tensor])
        while use >= 0 and not (begins[use, target] and task.program.use_op[use] > end):
            use = int(model.uses.after[use])
        near = source if source < task.backing else -1
        if use >= 0 and (columns.copied[use, target] if near < 0 else columns.moved[use, target, near]) >= 0:
            first, last = (columns.window if near < 0 else columns.since)[use], task.program.use_op[use] - 1
            values[model.copying(use, target, near)] = copies.shares(transfer, first, last)
    given = np.array(plan.handed_over(task.program), dtype=np.int64).reshape(-1, 2)
    handed = set(zip(*plan.allocations[given, 0].T.tolist(), plan.allocations[given[:, 0], 1].tolist(), strict=True))
    for level, occupants in enumerate(model.occupants):
        for operand, result, _, column in occupants.given.tolist():
            both = columns.here[[model.uses.last[operand], model.uses.first[result]], level]
            values[column] = (operand, result, level) in handed and values[both].all()
    served = np.zeros((task.program.num_ops, task.backing + 1), dtype=np.bool_)
    served[task.program.use_op, plan.use_level] = True
    values[columns.touches[columns.touches >= 0]] = served[columns.touches >= 0]
    _fill(model, values)
    return np.clip(values, program.lower, program.upper)


class _Copies:
    """The time at which each share of a plan's copies is done.

    Attributes:
        time_ps: int64[T+1], times of the ops with the waits behind them, and of the tail.
    """

    def __init__(self, task: Task, plan: MemoryPlan) -> None:
        ops, copies = task.program.num_ops, ordered_copies(task, plan)
        times = op_times(task.costs, used_by_level(task.program.use_ptr, plan.use_level, task.costs.use_ps))
        stall, tail, served = copies.run(times)
        self.time_ps = np.append(times.op_ps, 0) + np.append(np.append(stall[1:], 0), tail)
        # What is served before op t, 2t, is in the time of op t-1; the tail, 2T, is a time of its own.
        copy, when, self._took_ps = served[np.argsort(served[:, 0], kind="stable")].T
        self._op = np.where(when == 2 * ops, ops, (when - 1) // 2)
        self._rows = np.searchsorted(copy, np.arange(len(copies.start) + 1))
        self._demand_ps, self._end = copies.demand_ps, copies.end
        self._number = np.argsort(copies.transfer)

    def shares(self, transfer: int, first: int, last: int) -> Floats:
        """Return the share of a copy of the plan that is done by the end of each op from first to last."""
        copy = self._number[transfer]
        if self._demand_ps[copy] == 0:
            return np.asarray(np.arange(first, last + 1) >= self._end[copy], dtype=np.float64)
        rows = slice(*self._rows[copy : copy + 2])
        step = np.clip(self._op[rows] - first, 0, last + 1 - first)
        done_ps = np.bincount(step, self._took_ps[rows], last + 2 - first)[:-1]
        return np.asarray(np.cumsum(done_ps) / self._demand_ps[copy])


def _fill(model: DynamicModel, values: Floats) -> None:
    """Give the columns that follow from others, those beyond `Columns.total`, the least values that rows allow."""
    program, first = model.program, model.columns.total
    terms = program.matrix.tocoo()
    raising = (terms.col >= first) & (terms.data > 0) & ~np.isin(terms.col, model.given)
    row, column, factor = terms.row[raising], terms.col[raising], terms.data[raising]
    for _ in range(PASSES):
        missing = program.row_lower - program.matrix @ values
        needed = np.zeros(len(values))
        np.maximum.at(needed, column, missing[row] / factor)
        values += needed
        integers = np.flatnonzero(program.integrality[first:]) + first
        values[integers] = np.ceil(values[integers] - FEASIBLE)
