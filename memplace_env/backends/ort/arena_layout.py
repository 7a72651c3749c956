"""Places of tensors in the arenas of a task, one arena per memory of its chip."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

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
