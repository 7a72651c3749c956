"""The arenas of a task, one per memory of its chip, and the places of tensors in them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import ExecutionError
from memplace_env._lib.units import ceil_div, round_up
from memplace_env.backends.ort.source import Source
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task

ALIGNMENT: Final = 64
"""Bytes; each tensor in the backing memory starts at a multiple of it."""


class ByteSpan(NamedTuple):
    """Bytes start..stop-1 of the arena of a level."""

    level: int
    start: int
    stop: int


class ArenaLayout:
    """Sizes of the arenas, and the places of the tensors of any plan in them.

    Fast levels have the chip's capacity, the backing memory has room for all tensors side by side. If a task deploys
    tensors in smaller types than the file, each byte of the plan becomes `scale` bytes here: blocks that touch in the
    plan touch here too.

    Args:
        task: the plans' task.
        source: its model.

    Attributes:
        scale: bytes here for each byte of the plan.
        arena_bytes: bytes of each level's arena.
    """

    def __init__(self, task: Task, source: Source) -> None:
        self._planned = task.program.tensor_bytes
        # A bias that fusion creates is no value of the file.
        values = source.program.tensor_value
        own = np.array([source.bytes_of(name) if name in source.values else 0 for name in values])
        own = own if task.program.slices is None else task.program.slices.of_tensors(own)
        self.scale = max(1, int(ceil_div(own, self._planned).max()))
        self._bytes = np.where(own > 0, own, self._planned * self.scale)
        rounded = round_up(self._bytes, ALIGNMENT)
        self._start = np.cumsum(rounded) - rounded
        # An output lies where the tensor lies whose place it takes, if the file has both in one size.
        place = np.where(task.program.alias_of < 0, np.arange(len(own)), task.program.alias_of)
        self._start = np.where(self._bytes == self._bytes[place], self._start[place], self._start)
        fast = [level.capacity_bytes * self.scale for level in task.accelerator.levels[:-1]]
        self.arena_bytes = (*fast, int(rounded.sum()))

    def backing(self, tensor: int) -> ByteSpan:
        """Return a tensor's bytes in the backing memory."""
        start = int(self._start[tensor])
        return ByteSpan(len(self.arena_bytes) - 1, start, start + int(self._bytes[tensor]))

    def block(self, plan: MemoryPlan, row: int) -> ByteSpan:
        """Return a tensor's bytes in a block of a plan."""
        return self._part(plan, row, int(self._bytes[plan.allocations[row, 0]]))

    def whole_block(self, plan: MemoryPlan, row: int) -> ByteSpan:
        """Return all bytes of a block of a plan, its `rest` included."""
        return self._part(plan, row, int(self._planned[plan.allocations[row, 0]]) * self.scale)

    def rest(self, tensor: int, span: ByteSpan) -> ByteSpan:
        """Return the bytes of a block after its tensor, which exist if `scale` is larger than that tensor needs.

        There are none in the backing memory.
        """
        fast = span.level < len(self.arena_bytes) - 1
        return span._replace(
            start=span.stop, stop=span.start + int(self._planned[tensor]) * self.scale if fast else span.stop
        )

    def reached(self, plan: MemoryPlan) -> list[ByteSpan]:
        """Return the bytes of each fast level that a plan can reach."""
        spans = []
        for level in range(len(self.arena_bytes) - 1):
            tensor, _, offset = plan.allocations[plan.allocations[:, 1] == level, :3].T
            spans.append(ByteSpan(level, 0, int((offset + self._planned[tensor]).max(initial=0)) * self.scale))
        return spans

    def _part(self, plan: MemoryPlan, row: int, size: int) -> ByteSpan:
        _, level, offset = plan.allocations[row, :3].tolist()
        start = offset * self.scale
        if start + size > self.arena_bytes[level]:
            raise ExecutionError(f"Allocation {row} exceeds the capacity of level {level}.")
        return ByteSpan(level, start, start + size)


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


Bytes = NDArray[np.uint8]

POISON: Final = 0xFF
"""Fill of bytes without valid contents: floating-point numbers read from there are NaN."""


class Arenas:
    """The arenas of all levels.

    Args:
        layout: their sizes.
    """

    def __init__(self, layout: ArenaLayout) -> None:
        self._levels = [aligned(size) for size in layout.arena_bytes]

    def at(self, span: ByteSpan) -> Bytes:
        """Return the bytes of a span, as a view."""
        part: Bytes = self._levels[span.level][span.start : span.stop]
        return part


def raw(array: NDArray[Any]) -> Bytes:
    """Return the bytes of an array."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8)


def aligned(size: int) -> Bytes:
    """Allocate bytes that start at a multiple of `ALIGNMENT`."""
    more = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -more.ctypes.data % ALIGNMENT
    return more[start : start + size]
