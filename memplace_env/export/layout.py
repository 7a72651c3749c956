"""Where everything lies: a plan's own addresses, and places in the backing memory, to which a plan gives none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from memplace_env.errors import PlanError
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints, TensorKind

ALIGNMENT = 64
"""Bytes; tensors in the backing memory begin at multiples of it, and no level is said to have a larger one."""


@dataclass(frozen=True)
class Layout:
    """Addresses of all that a plan moves, in bytes from the start of each level's arena.

    Attributes:
        arena_bytes: int64[L], up to the last byte that a tensor ever takes.
        alignment: int64[L], the power of two, at most `ALIGNMENT`, of which every offset in the level is a multiple.
        backing_offset: int64[K], -1 for tensors that never are in the backing memory.
        use_offset: int64[U], in the level that serves the use.
        copy_offset: int64[M, 2], where each copy reads, and where it writes.
    """

    arena_bytes: Ints
    alignment: Ints
    backing_offset: Ints
    use_offset: Ints
    copy_offset: Ints

    @classmethod
    def of(cls, task: Task, plan: MemoryPlan) -> Layout:
        """The layout of a valid plan.

        Raises:
            PlanError: if the backing memory does not hold all of its tensors side by side.
        """
        program, backing = task.program, task.backing
        backing_offset = _backing_offsets(task, plan)
        there = backing_offset >= 0
        last_byte = backing_offset + program.tensor_bytes
        arena_bytes = np.zeros(backing + 1, dtype=np.int64)
        arena_bytes[backing] = last_byte[there].max(initial=0)
        capacity = task.accelerator.levels[backing].capacity_bytes
        if arena_bytes[backing] > capacity:
            raise PlanError(
                f"The tensors in {task.accelerator.levels[backing].name} take {arena_bytes[backing]:,} bytes side by "
                f"side, and it has {capacity:,}; take a chip with more of it, or a smaller batch."
            )
        tensor, level, offset, _, _ = plan.allocations.T
        np.maximum.at(arena_bytes, level, offset + program.tensor_bytes[tensor])
        alignment = [math.gcd(ALIGNMENT, *offset[level == each].tolist()) for each in range(backing)]
        blocks = _Blocks(plan, backing, backing_offset)
        uses = zip(program.use_tensor.tolist(), plan.use_level.tolist(), program.use_op.tolist(), strict=True)
        use_offset = [blocks.offset(used, served, op, op) for used, served, op in uses]
        return cls(
            arena_bytes=arena_bytes,
            alignment=np.array([*alignment, ALIGNMENT], dtype=np.int64),
            backing_offset=backing_offset,
            use_offset=np.array(use_offset, dtype=np.int64),
            copy_offset=np.array([blocks.ends(*row) for row in plan.transfers.tolist()], dtype=np.int64).reshape(-1, 2),
        )


class _Blocks:
    """Finds the block of a tensor in a level at some time."""

    def __init__(self, plan: MemoryPlan, backing: int, backing_offset: Ints) -> None:
        self._backing = backing
        self._backing_offset = backing_offset
        self._blocks: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        for tensor, level, offset, start, end in plan.allocations.tolist():
            self._blocks.setdefault((tensor, level), []).append((offset, start, end))

    def offset(self, tensor: int, level: int, first: int, last: int) -> int:
        """The offset of the block that is there during ops first..last; a valid plan has one."""
        if level == self._backing:
            return int(self._backing_offset[tensor])
        blocks = self._blocks[tensor, level]
        return next(offset for offset, start, end in blocks if start <= first and last <= end)

    def ends(self, tensor: int, source: int, target: int, start: int, end: int) -> tuple[int, int]:
        """Where a copy reads and writes."""
        covered = (start, end + 1) if source == self._backing else (start - 1, end)
        return self.offset(tensor, source, *covered), self.offset(tensor, target, *covered)


def _backing_offsets(task: Task, plan: MemoryPlan) -> Ints:
    """int64[K]: all that ever is in the backing memory side by side; an output whose place another has shares it."""
    program = task.program
    kept = [TensorKind.INPUT, TensorKind.OUTPUT, *([TensorKind.WEIGHT] if task.streams_weights else [])]
    there = np.isin(program.tensor_kind, kept)
    there[program.use_tensor[plan.use_level == task.backing]] = True
    there[plan.transfers[:, 0]] = True
    aliased = there & (program.alias_of >= 0)
    there[program.alias_of[aliased]] = True
    sizes = np.where(there & ~aliased, -(-program.tensor_bytes // ALIGNMENT) * ALIGNMENT, 0)
    offsets = np.where(there, np.cumsum(sizes) - sizes, -1)
    offsets[aliased] = offsets[program.alias_of[aliased]]
    return offsets
