"""The binary decisions of a solution: blocks, and the level that serves each use."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.exact.dynamic.columns import uses_of
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel
from memplace_agents.exact.highs import Floats, LinearProgram
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

Bools = NDArray[np.bool_]


class Decisions(NamedTuple):
    """Binary decisions as bool arrays, see `Columns`: `resident` [K, F]; `here`, `fast` and `stay` [U, F]."""

    resident: Bools
    here: Bools
    fast: Bools
    stay: Bools

    @classmethod
    def of_values(cls, model: DynamicModel, values: Floats) -> Decisions:
        """Return the decisions of a solution of the model."""
        columns = model.columns
        parts = (columns.resident, columns.here, columns.fast, columns.stay)
        return cls(*((part >= 0) & (values[part] > 0.5) for part in parts))

    @classmethod
    def of_plan(cls, task: Task, plan: MemoryPlan) -> Decisions:
        """Return the decisions of a valid plan."""
        program, backing = task.program, task.backing
        block = _block_at(task, plan)
        # Two uses with the same row of the allocations have the same block, which stayed in between.
        here = block >= 0
        before = uses_of(task).before
        stay = here & (before >= 0)[:, None] & (block == block[before])
        fast = plan.use_level[:, None] == np.arange(backing)
        resident = np.zeros((program.num_tensors, backing), dtype=bool)
        tensor, level = plan.allocations[task.resident_blocks(plan), :2].T
        resident[tensor, level] = True
        here &= ~resident[program.use_tensor]
        stay &= ~resident[program.use_tensor]
        return cls(resident, here, fast, stay)

    def fixed(self, model: DynamicModel, uses: Bools | None = None) -> LinearProgram:
        """Return the program with these decisions fixed, at all uses or at `uses`, bool[U].

        Whether a weight is resident is fixed if all its uses are.
        """
        lower, upper = model.program.lower.copy(), model.program.upper.copy()
        columns, some = model.columns, slice(None) if uses is None else uses
        # In this order, as `here` wins where `fast` shares its column: a use with a block is served from it.
        for part, chosen in ((columns.fast, self.fast), (columns.here, self.here), (columns.stay, self.stay)):
            _fix(part[some], chosen[some], lower, upper)
        fixed = np.ones(len(columns.resident), dtype=bool)
        fixed[model.task.program.use_tensor[slice(0) if uses is None else ~uses]] = False
        _fix(columns.resident[fixed], self.resident[fixed], lower, upper)
        return replace(model.program, lower=lower, upper=upper)

    def needed(self, model: DynamicModel) -> Bools:
        """Return the tensors that are read or copied from the backing memory, or must end there, bool[K]."""
        program = model.task.program
        fetched = ~program.use_is_result & (~self.fast.any(axis=1) | (self.here & ~self.stay).any(axis=1))
        needed: Bools = model.uses.sent_by == program.num_ops
        needed[program.use_tensor[fetched]] = True
        return needed


def _fix(columns: Ints, chosen: Bools, lower: Floats, upper: Floats) -> None:
    exists = columns >= 0
    lower[columns[exists]] = upper[columns[exists]] = chosen[exists]


def _block_at(task: Task, plan: MemoryPlan) -> Ints:
    """Return the allocation that holds the data of each use in each fast level, int64[U, F]; -1 for none."""
    program, backing = task.program, task.backing
    block = np.full((program.num_uses, backing), -1)
    copies = plan.copy_windows(backing)
    order = np.argsort(program.use_tensor, kind="stable")
    ends = np.searchsorted(program.use_tensor[order], np.arange(program.num_tensors + 1))
    for row, (tensor, level, _, start, end) in enumerate(plan.allocations.tolist()):
        # The block has data once a copy into it has ended, or from its start if its producer writes to it.
        ready = [last + 1 for first, last in copies.get((tensor, level), []) if start <= first and last + 1 <= end]
        uses = order[ends[tensor] : ends[tensor + 1]]
        if program.producer[tensor] == start and plan.use_level[uses[0]] == level:
            ready.append(start)
        since = min(ready, default=end + 1)
        inside = uses[(program.use_op[uses] >= since) & (program.use_op[uses] <= end)]
        block[inside, level] = row
    return block
