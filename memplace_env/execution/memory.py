"""The memories of a chip as bytes of this machine: one arena per level."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import ExecutionError
from memplace_env.execution.source import Source
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task

Bytes = NDArray[np.uint8]

ALIGNMENT: Final = 64
POISON: Final = 0xFF
"""Fills bytes without meaning: floating-point numbers read from there are not numbers."""


class Memory:
    """Arenas, and where in them the tensors of a plan are.

    The fast levels have the chip's capacity, the backing memory what all tensors together need. Where a plan deploys
    tensors in smaller types than the file has, each byte of the plan stands for `scale` bytes here: blocks that touch
    in the plan touch here too.

    Args:
        task: what the plans are for.
        source: its model.

    Attributes:
        scale: bytes here for each byte of the plan.
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
        self._levels = [_aligned(size) for size in (*fast, int(slots.sum()))]

    @property
    def total_bytes(self) -> int:
        """Of all arenas together."""
        return sum(map(len, self._levels))

    def clear(self, plan: MemoryPlan) -> None:
        """Poison what the plan can reach of the fast levels."""
        for level, arena in enumerate(self._levels[:-1]):
            tensor, _, offset = plan.allocations[plan.allocations[:, 1] == level, :3].T
            arena[: int((offset + self._planned[tensor]).max(initial=0)) * self.scale] = POISON

    def backing(self, tensor: int) -> Bytes:
        """The bytes of a tensor in the backing memory."""
        start = int(self._slot[tensor])
        return self._levels[-1][start : start + int(self._bytes[tensor])]

    def block(self, plan: MemoryPlan, row: int) -> Bytes:
        """The bytes of a tensor in a block of a plan."""
        return self._part(plan, row, int(self._bytes[plan.allocations[row, 0]]))

    def whole_block(self, plan: MemoryPlan, row: int) -> Bytes:
        """All bytes of a block of a plan; a tensor of a type that was not made smaller leaves some of them unused."""
        return self._part(plan, row, int(self._planned[plan.allocations[row, 0]]) * self.scale)

    def _part(self, plan: MemoryPlan, row: int, size: int) -> Bytes:
        _, level, offset = plan.allocations[row, :3].tolist()
        start = offset * self.scale
        if start + size > len(self._levels[level]):
            raise ExecutionError(f"Allocation {row} ends behind the capacity of level {level}.")
        part: Bytes = self._levels[level][start : start + size]
        return part


def _aligned(size: int) -> Bytes:
    """Bytes that start at a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]
