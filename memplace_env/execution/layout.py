"""Where the bytes of tensors lie in the arenas of a task, one per memory of its chip."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from memplace_env.errors import ExecutionError
from memplace_env.execution.source import Source
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task

ALIGNMENT: Final = 64
"""Bytes; each tensor in the backing memory starts at a multiple of it."""


class Span(NamedTuple):
    """Bytes start..stop-1 of the arena of a level."""

    level: int
    start: int
    stop: int


class Layout:
    """Sizes of the arenas, and where in them the tensors of any plan are.

    The fast levels have the chip's capacity, the backing memory what all tensors together need. Where a plan deploys
    tensors in smaller types than the file has, each byte of the plan stands for `scale` bytes here: blocks that touch
    in the plan touch here too.

    Args:
        task: what the plans are for.
        source: its model.

    Attributes:
        scale: bytes here for each byte of the plan.
        arena_bytes: of each level.
    """

    def __init__(self, task: Task, source: Source) -> None:
        self._planned = task.program.tensor_bytes
        # A bias that arises by fusion is no value of the file.
        own = np.array([source.bytes_of(name) if name in source.values else 0 for name in task.program.tensor_value])
        self.scale = max(1, int((-(-own // self._planned)).max()))
        self._bytes = np.where(own > 0, own, self._planned * self.scale)
        slots = -(-self._bytes // ALIGNMENT) * ALIGNMENT
        self._slot = np.cumsum(slots) - slots
        fast = [level.capacity_bytes * self.scale for level in task.accelerator.levels[:-1]]
        self.arena_bytes = (*fast, int(slots.sum()))

    def backing(self, tensor: int) -> Span:
        """A tensor in the backing memory."""
        start = int(self._slot[tensor])
        return Span(len(self.arena_bytes) - 1, start, start + int(self._bytes[tensor]))

    def block(self, plan: MemoryPlan, row: int) -> Span:
        """A tensor in a block of a plan."""
        return self._part(plan, row, int(self._bytes[plan.allocations[row, 0]]))

    def whole_block(self, plan: MemoryPlan, row: int) -> Span:
        """All of a block of a plan, with its `rest`."""
        return self._part(plan, row, int(self._planned[plan.allocations[row, 0]]) * self.scale)

    def rest(self, tensor: int, span: Span) -> Span:
        """What a tensor of a type that was not made smaller leaves of its block; nothing in the backing memory."""
        fast = span.level < len(self.arena_bytes) - 1
        return span._replace(
            start=span.stop, stop=span.start + int(self._planned[tensor]) * self.scale if fast else span.stop
        )

    def reached(self, plan: MemoryPlan) -> list[Span]:
        """What a plan can reach of each fast level."""
        found = []
        for level in range(len(self.arena_bytes) - 1):
            tensor, _, offset = plan.allocations[plan.allocations[:, 1] == level, :3].T
            found.append(Span(level, 0, int((offset + self._planned[tensor]).max(initial=0)) * self.scale))
        return found

    def _part(self, plan: MemoryPlan, row: int, size: int) -> Span:
        _, level, offset = plan.allocations[row, :3].tolist()
        start = offset * self.scale
        if start + size > self.arena_bytes[level]:
            raise ExecutionError(f"Allocation {row} ends behind the capacity of level {level}.")
        return Span(level, start, start + size)
