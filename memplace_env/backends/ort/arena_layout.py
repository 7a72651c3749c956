"""The arenas of a task, one per memory of its chip, and the places of tensors in them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import ExecutionError
from memplace_env._lib.units import ceil_div, round_up
from memplace_env.backends.ort.network import Network
from memplace_env.placement.backing_memory import ALIGNMENT, backing_offsets
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class ByteSpan(NamedTuple):
    """Bytes start..stop-1 of the arena of a level."""

    level: int
    start: int
    stop: int


class ArenaLayout:
    """Sizes of the arenas, and the places of the tensors of any plan in them.

    Fast levels have the chip's capacity, the backing memory has room for all tensors side by side, whatever part of it
    `backing_offsets` needs. If a task deploys tensors in smaller types than the file, each byte of the plan becomes
    `scale` bytes here: blocks that touch in the plan touch here too.

    Args:
        task: the plans' task.
        network: its network.

    Attributes:
        scale: bytes here for each byte of the plan.
        arena_bytes: bytes of each level's arena.
    """

    def __init__(self, task: Task, network: Network) -> None:
        self._task, self._planned = task, task.program.tensor_bytes
        own = np.array([network.contents[tensor].nbytes for tensor in range(task.program.whole.num_tensors)])
        self._bytes = own if task.program.slices is None else task.program.slices.of_tensors(own)
        self.scale = max(1, int(ceil_div(self._bytes, self._planned).max()))
        self._rounded = round_up(self._planned, ALIGNMENT)
        fast = [level.capacity_bytes * self.scale for level in task.accelerator.levels[:-1]]
        self.arena_bytes = (*fast, int(self._rounded.sum()) * self.scale)

    def behind(self, plan: MemoryPlan) -> Ints:
        """Return int64[K], where each tensor begins in the backing memory, -1 for those that a plan never has there.

        Side by side for plans whose tensors there find no places, as they are not valid.
        """
        offsets = backing_offsets(self._task, plan)
        return self.scale * (np.cumsum(self._rounded) - self._rounded if offsets is None else offsets)

    def at(self, tensor: int, start: int) -> ByteSpan:
        """Return a tensor's bytes in the backing memory if it begins there at `start`."""
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

    Attributes:
        plan: the plan.
        behind: the tensors that are ever in the backing memory.
    """

    def __init__(self, task: Task, plan: MemoryPlan, layout: ArenaLayout) -> None:
        self._task = task
        self.plan = plan
        self._layout = layout
        start = plan.allocations[:, 3].tolist()
        self._rows = {block: sorted(rows, key=lambda row: start[row]) for block, rows in plan.block_rows().items()}
        self._behind = layout.behind(plan)
        self.behind: list[int] = np.flatnonzero(self._behind >= 0).tolist()
        self._uses = [self._uses_of(op) for op in range(task.program.num_ops)]

    def backing(self, tensor: int) -> ByteSpan:
        """Return a tensor's bytes in the backing memory; those of others for an output that never gets there."""
        return self._layout.at(tensor, max(0, int(self._behind[tensor])))

    def of_op(self, op: int) -> dict[int, ByteSpan]:
        """Return the bytes that an op uses, by tensor."""
        return self._uses[op]

    def ends(self, row: int) -> tuple[ByteSpan, ByteSpan]:
        """Return the bytes that a copy reads and those that it writes."""
        tensor, source, target, start, end = self.plan.transfers[row].tolist()
        backing = self.backing(tensor)
        if source == self._task.backing:
            return backing, self._covering(tensor, target, start, end + 1)
        if target < self._task.backing:
            return self._covering(tensor, source, start, end), self._covering(tensor, target, start, end + 1)
        return self._covering(tensor, source, start - 1, end), backing

    def _covering(self, tensor: int, level: int, first: int, last: int) -> ByteSpan:
        """Return a copy's block, which covers ops first..last."""
        for row in self._rows.get((tensor, level), ()):
            if self.plan.allocations[row, 3] <= first and last <= self.plan.allocations[row, 4]:
                return self._layout.block(self.plan, row)
        return self._at(tensor, level, first)

    def _uses_of(self, op: int) -> dict[int, ByteSpan]:
        program = self._task.program
        uses = slice(program.use_ptr[op], program.use_ptr[op + 1])
        pairs = zip(program.use_tensor[uses].tolist(), self.plan.use_level[uses].tolist(), strict=True)
        return {tensor: self._at(tensor, level, op) for tensor, level in pairs}

    def _at(self, tensor: int, level: int, op: int) -> ByteSpan:
        if level == self._task.backing:
            return self.backing(tensor)
        rows = self._rows.get((tensor, level))
        if not rows:
            raise ExecutionError(f"Tensor {tensor} has no block in level {level}, where op {op} uses it.")
        begun = [row for row in rows if self.plan.allocations[row, 3] <= op]
        return self._layout.block(self.plan, begun[-1] if begun else rows[0])


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
