"""Addresses for an export: a plan's own, and those in the backing memory, see `backing_memory`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memplace_env.placement.backing_memory import ALIGNMENT, backing_offsets
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


@dataclass(frozen=True)
class ExportLayout:
    """Addresses of a plan's tensors, uses and copies, in bytes from the start of each level's arena.

    Attributes:
        arena_bytes: int64[L], size up to the last byte that a tensor ever takes.
        alignment: int64[L], the power of two, at most `ALIGNMENT`, of which every offset in the level is a multiple.
        backing_offset: int64[K], -1 for tensors that are never in the backing memory.
        use_offset: int64[U], offset in the level that serves the use.
        copy_offset: int64[M, 2], offsets that each copy reads and writes.
    """

    arena_bytes: Ints
    alignment: Ints
    backing_offset: Ints
    use_offset: Ints
    copy_offset: Ints

    @classmethod
    def of(cls, task: Task, plan: MemoryPlan) -> ExportLayout:
        """Return the layout of a valid plan."""
        program, backing = task.program, task.backing
        backing_offset = backing_offsets(task, plan)
        assert backing_offset is not None  # or else the plan is not valid
        behind = backing_offset >= 0
        last_byte = backing_offset + program.tensor_bytes
        arena_bytes = np.zeros(backing + 1, dtype=np.int64)
        arena_bytes[backing] = last_byte[behind].max(initial=0)
        tensor, level, offset, _, _ = plan.allocations.T
        np.maximum.at(arena_bytes, level, offset + program.tensor_bytes[tensor])
        alignment = [math.gcd(ALIGNMENT, *offset[level == index].tolist()) for index in range(backing)]
        alignment.append(math.gcd(ALIGNMENT, *backing_offset[behind].tolist()))
        blocks = _Blocks(plan, backing, backing_offset)
        uses = zip(program.use_tensor.tolist(), plan.use_level.tolist(), program.use_op.tolist(), strict=True)
        use_offset = [blocks.offset(used, served, op, op) for used, served, op in uses]
        return cls(
            arena_bytes=arena_bytes,
            alignment=np.array(alignment, dtype=np.int64),
            backing_offset=backing_offset,
            use_offset=np.array(use_offset, dtype=np.int64),
            copy_offset=np.array([blocks.ends(*row) for row in plan.transfers.tolist()], dtype=np.int64).reshape(-1, 2),
        )


class _Blocks:
    """The blocks of tensors by level and time."""

    def __init__(self, plan: MemoryPlan, backing: int, backing_offset: Ints) -> None:
        self._backing = backing
        self._backing_offset = backing_offset
        spans = plan.allocations[:, 2:].tolist()
        self._blocks: dict[tuple[int, int], list[list[int]]] = {
            block: [spans[row] for row in rows] for block, rows in plan.block_rows().items()
        }

    def offset(self, tensor: int, level: int, first: int, last: int) -> int:
        """Return the offset of the block that covers ops first..last; a valid plan has one."""
        if level == self._backing:
            return int(self._backing_offset[tensor])
        blocks = self._blocks[tensor, level]
        return next(offset for offset, start, end in blocks if start <= first and last <= end)

    def ends(self, tensor: int, source: int, target: int, start: int, end: int) -> tuple[int, int]:
        """Return the offsets that a copy reads and writes."""
        covered = (start, end + 1) if source == self._backing else (start - 1, end)
        return self.offset(tensor, source, *covered), self.offset(tensor, target, *covered)
