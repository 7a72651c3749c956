"""Where the uses and copies of a plan find their data."""

from __future__ import annotations

import numpy as np

from memplace_env.errors import ExecutionError
from memplace_env.execution.memory import Bytes, Memory
from memplace_env.execution.result import EXACT_ALIGNMENT
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task


class Places:
    """The bytes behind each use and each copy of a plan, valid or not.

    A use reads the last block of its tensor there that has begun. In a valid plan that has not ended either; in others
    its bytes are read as they are.
    """

    def __init__(self, task: Task, plan: MemoryPlan, memory: Memory) -> None:
        self._task = task
        self._plan = plan
        self._memory = memory
        self._rows: dict[tuple[int, int], list[int]] = {}
        for row in np.argsort(plan.allocations[:, 3], kind="stable").tolist():
            tensor, level = plan.allocations[row, :2].tolist()
            self._rows.setdefault((tensor, level), []).append(row)
        self._uses = [self._of_op(op) for op in range(task.program.num_ops)]

    def addresses(self, op: int) -> dict[int, int]:
        """Addresses of this machine of what an op uses, by tensor."""
        return {tensor: int(part.ctypes.data) for tensor, part in self._uses[op].items()}

    def result(self, op: int, tensor: int) -> Bytes:
        """The bytes of a tensor that an op makes."""
        return self._uses[op][tensor]

    def is_aligned(self, op: int) -> bool:
        """Whether kernels compute the same bits there as anywhere."""
        return all(address % EXACT_ALIGNMENT == 0 for address in self.addresses(op).values())

    def ends(self, row: int) -> tuple[Bytes, Bytes]:
        """The bytes that a copy reads and those that it writes."""
        tensor, source, target, start, end = self._plan.transfers[row].tolist()
        backing = self._memory.backing(tensor)
        if source == self._task.backing:
            return backing, self._held(tensor, target, start, end + 1)
        return self._held(tensor, source, start - 1, end), backing

    def _held(self, tensor: int, level: int, first: int, last: int) -> Bytes:
        """The bytes of a copy's block, which covers ops first..last."""
        for row in self._rows.get((tensor, level), ()):
            if self._plan.allocations[row, 3] <= first and last <= self._plan.allocations[row, 4]:
                return self._memory.block(self._plan, row)
        return self._at(tensor, level, first)

    def _of_op(self, op: int) -> dict[int, Bytes]:
        program = self._task.program
        uses = slice(program.use_ptr[op], program.use_ptr[op + 1])
        pairs = zip(program.use_tensor[uses].tolist(), self._plan.use_level[uses].tolist(), strict=True)
        return {tensor: self._at(tensor, level, op) for tensor, level in pairs}

    def _at(self, tensor: int, level: int, op: int) -> Bytes:
        if level == self._task.backing:
            return self._memory.backing(tensor)
        rows = self._rows.get((tensor, level))
        if not rows:
            raise ExecutionError(f"Tensor {tensor} has no block in level {level}, where op {op} wants it.")
        begun = [row for row in rows if self._plan.allocations[row, 3] <= op]
        return self._memory.block(self._plan, begun[-1] if begun else rows[0])
