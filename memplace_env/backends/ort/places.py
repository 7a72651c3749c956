"""The bytes that the uses and copies of a plan read and write."""

from __future__ import annotations

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort.arena_layout import ArenaLayout, ByteSpan
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task


class Places:
    """The bytes of each use and each copy of a plan, valid or not.

    A use reads the last block of its tensor in the level that has begun. In a valid plan that block has not ended; in
    others its bytes are read as they are.
    """

    def __init__(self, task: Task, plan: MemoryPlan, layout: ArenaLayout) -> None:
        self._task = task
        self._plan = plan
        self._layout = layout
        start = plan.allocations[:, 3].tolist()
        self._rows = {block: sorted(rows, key=lambda row: start[row]) for block, rows in plan.block_rows().items()}
        self._uses = [self._uses_of(op) for op in range(task.program.num_ops)]

    def of_op(self, op: int) -> dict[int, ByteSpan]:
        """Return the bytes that an op uses, by tensor."""
        return self._uses[op]

    def ends(self, row: int) -> tuple[ByteSpan, ByteSpan]:
        """Return the bytes that a copy reads and those that it writes."""
        tensor, source, target, start, end = self._plan.transfers[row].tolist()
        backing = self._layout.backing(tensor)
        if source == self._task.backing:
            return backing, self._covering(tensor, target, start, end + 1)
        return self._covering(tensor, source, start - 1, end), backing

    def _covering(self, tensor: int, level: int, first: int, last: int) -> ByteSpan:
        """Return a copy's block, which covers ops first..last."""
        for row in self._rows.get((tensor, level), ()):
            if self._plan.allocations[row, 3] <= first and last <= self._plan.allocations[row, 4]:
                return self._layout.block(self._plan, row)
        return self._at(tensor, level, first)

    def _uses_of(self, op: int) -> dict[int, ByteSpan]:
        program = self._task.program
        uses = slice(program.use_ptr[op], program.use_ptr[op + 1])
        pairs = zip(program.use_tensor[uses].tolist(), self._plan.use_level[uses].tolist(), strict=True)
        return {tensor: self._at(tensor, level, op) for tensor, level in pairs}

    def _at(self, tensor: int, level: int, op: int) -> ByteSpan:
        if level == self._task.backing:
            return self._layout.backing(tensor)
        rows = self._rows.get((tensor, level))
        if not rows:
            raise ExecutionError(f"Tensor {tensor} has no block in level {level}, where op {op} uses it.")
        begun = [row for row in rows if self._plan.allocations[row, 3] <= op]
        return self._layout.block(self._plan, begun[-1] if begun else rows[0])
