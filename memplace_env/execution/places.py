"""Where the uses and copies of a plan find their data."""

from __future__ import annotations

import numpy as np

from memplace_env.errors import ExecutionError
from memplace_env.execution.layout import Layout, Span
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task


class Places:
    """Where each use and each copy of a plan, valid or not, finds its bytes.

    A use reads the last block of its tensor there that has begun. In a valid plan that has not ended either; in others
    its bytes are read as they are.
    """

    def __init__(self, task: Task, plan: MemoryPlan, layout: Layout) -> None:
        self._task = task
        self._plan = plan
        self._layout = layout
        self._rows: dict[tuple[int, int], list[int]] = {}
        for row in np.argsort(plan.allocations[:, 3], kind="stable").tolist():
            tensor, level = plan.allocations[row, :2].tolist()
            self._rows.setdefault((tensor, level), []).append(row)
        self._uses = [self._found(op) for op in range(task.program.num_ops)]

    def of_op(self, op: int) -> dict[int, Span]:
        """What an op uses, by tensor."""
        return self._uses[op]

    def ends(self, row: int) -> tuple[Span, Span]:
        """What a copy reads and what it writes."""
        tensor, source, target, start, end = self._plan.transfers[row].tolist()
        backing = self._layout.backing(tensor)
        if source == self._task.backing:
            return backing, self._held(tensor, target, start, end + 1)
        return self._held(tensor, source, start - 1, end), backing

    def _held(self, tensor: int, level: int, first: int, last: int) -> Span:
        """A copy's block, which covers ops first..last."""
        for row in self._rows.get((tensor, level), ()):
            if self._plan.allocations[row, 3] <= first and last <= self._plan.allocations[row, 4]:
                return self._layout.block(self._plan, row)
        return self._at(tensor, level, first)

    def _found(self, op: int) -> dict[int, Span]:
        program = self._task.program
        uses = slice(program.use_ptr[op], program.use_ptr[op + 1])
        pairs = zip(program.use_tensor[uses].tolist(), self._plan.use_level[uses].tolist(), strict=True)
        return {tensor: self._at(tensor, level, op) for tensor, level in pairs}

    def _at(self, tensor: int, level: int, op: int) -> Span:
        if level == self._task.backing:
            return self._layout.backing(tensor)
        rows = self._rows.get((tensor, level))
        if not rows:
            raise ExecutionError(f"Tensor {tensor} has no block in level {level}, where op {op} wants it.")
        begun = [row for row in rows if self._plan.allocations[row, 3] <= op]
        return self._layout.block(self._plan, begun[-1] if begun else rows[0])
