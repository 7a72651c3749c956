"""The whole-numbered half of a solution: which blocks are where, and who serves which use."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from agents.exact.dynamic.columns import uses_of
from agents.exact.dynamic.model import Model
from agents.exact.highs import Floats, LinearProgram
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints, TensorKind

Bools = NDArray[np.bool_]


class Decisions:
    """bool arrays, see `Columns`: `resident` [K, F]; `here`, `fast` and `stay` [U, F]."""

    def __init__(self, resident: Bools, here: Bools, fast: Bools, stay: Bools) -> None:
        self.resident, self.here, self.fast, self.stay = resident, here, fast, stay

    @classmethod
    def of_values(cls, model: Model, values: Floats) -> Decisions:
        """Those of a solution."""
        columns = model.columns
        return cls(*(_taken(part, values) for part in (columns.resident, columns.here, columns.fast, columns.stay)))

    @classmethod
    def of_plan(cls, task: Task, plan: MemoryPlan) -> Decisions:
        """Those of a valid plan."""
        program, backing = task.program, task.backing
        block = _block_at(task, plan)
        here = block >= 0
        before = uses_of(task).before
        stay = here & (before >= 0)[:, None] & (block == block[before])
        fast = plan.use_level[:, None] == np.arange(backing)
        resident = np.zeros((program.num_tensors, backing), dtype=bool)
        if not task.streams_weights:
            tensor, level, _, start, end = plan.allocations.T
            weight = program.tensor_kind[tensor] == TensorKind.WEIGHT
            whole = weight & (start == 0) & (end >= program.num_ops - 1)
            resident[tensor[whole], level[whole]] = True
            here &= ~resident[program.use_tensor]
            stay &= ~resident[program.use_tensor]
        return cls(resident, here, fast, stay)

    def fixed(self, model: Model, uses: Bools | None = None) -> LinearProgram:
        """The program with these decisions, at all uses or at these, bool[U].

        A weight that is resident or not stays so if all its uses are among them.
        """
        lower, upper = model.program.lower.copy(), model.program.upper.copy()
        columns, some = model.columns, slice(None) if uses is None else uses
        # Where a block and being served from it are one column, who has a block is served from it.
        for part, chosen in ((columns.fast, self.fast), (columns.here, self.here), (columns.stay, self.stay)):
            _fix(part[some], chosen[some], lower, upper)
        kept = np.ones(len(columns.resident), dtype=bool)
        kept[model.task.program.use_tensor[slice(0) if uses is None else ~uses]] = False
        _fix(columns.resident[kept], self.resident[kept], lower, upper)
        return replace(model.program, lower=lower, upper=upper)

    def needed(self, model: Model) -> Bools:
        """bool[K], results that somebody reads from the backing memory or copies in, or that must end there."""
        program = model.task.program
        fetched = ~program.use_is_result & (~self.fast.any(axis=1) | (self.here & ~self.stay).any(axis=1))
        needed: Bools = model.uses.sent_by == program.num_ops
        needed[program.use_tensor[fetched]] = True
        return needed


def _taken(columns: Ints, values: Floats) -> Bools:
    chosen: Bools = (columns >= 0) & (values[columns] > 0.5)
    return chosen


def _fix(columns: Ints, chosen: Bools, lower: Floats, upper: Floats) -> None:
    there = columns >= 0
    lower[columns[there]] = upper[columns[there]] = chosen[there]


def _block_at(task: Task, plan: MemoryPlan) -> Ints:
    """int64[U, F], the row of the block that holds the used tensor's data then, -1 where none does."""
    program, backing = task.program, task.backing
    block = np.full((program.num_uses, backing), -1)
    copies: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for tensor, source, target, start, end in plan.transfers.tolist():
        if source == backing:
            copies.setdefault((tensor, target), []).append((start, end))
    order = np.argsort(program.use_tensor, kind="stable")
    ends = np.searchsorted(program.use_tensor[order], np.arange(program.num_tensors + 1))
    for row, (tensor, level, _, start, end) in enumerate(plan.allocations.tolist()):
        ready = [last + 1 for first, last in copies.get((tensor, level), []) if start <= first and last + 1 <= end]
        uses = order[ends[tensor] : ends[tensor + 1]]
        if program.producer[tensor] == start and plan.use_level[uses[0]] == level:
            ready.append(start)
        since = min(ready, default=end + 1)
        inside = uses[(program.use_op[uses] >= since) & (program.use_op[uses] <= end)]
        block[inside, level] = row
    return block
