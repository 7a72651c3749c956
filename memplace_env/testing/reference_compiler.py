"""The compiler by its description in plain Python: what its kernels are held equal to, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.testing.reference import copy_time, op_ports, op_time, uses_of
from memplace_env.workload.program import TensorKind


class Block(NamedTuple):
    """Bytes offset..offset+size-1 of a level during ops start..end."""

    level: int
    offset: int
    size: int
    start: int
    end: int


def gaps(blocks: Iterable[Block], ceiling: int, start: int, end: int) -> list[tuple[int, int]]:
    """(offset, size) of every maximal stretch of addresses below the ceiling that is free during all of start..end."""
    found, cursor = [], 0
    for block in sorted(blocks, key=lambda block: block.offset):
        if block.start <= end and block.end >= start:
            if min(block.offset, ceiling) > cursor:
                found.append((cursor, min(block.offset, ceiling) - cursor))
            cursor = max(cursor, block.offset + block.size)
    if ceiling > cursor:
        found.append((cursor, ceiling - cursor))
    return found


def ceiling_of(task: Task, level: int, first: int, last: int) -> int:
    """Bytes of a level below what any of the ops first..last reserves at its end."""
    reserved = task.costs.reserved_bytes[first : last + 1, level].tolist()
    return task.accelerator.levels[level].capacity_bytes - max(reserved, default=0)


def compile_mapping(task: Task, mapping: Sequence[int], order: str) -> tuple[MemoryPlan, int]:
    """The plan of a mapping int[K], and the bytes that did not get the level they asked for."""
    compiler = _Compiler(task, mapping, order)
    for op in range(task.program.num_ops):
        compiler.visit(op)
    return compiler.plan(), compiler.reassigned


@dataclass
class _Compiler:
    """Visits op after op: each tensor that is due tries the level it wants, then each one down.

    `windows` are the copies of streamed weights, `free` the port time that each op visited leaves for more.
    """

    task: Task
    mapping: Sequence[int]
    order: str
    placed: dict[int, Block] = field(default_factory=dict)
    windows: dict[int, tuple[int, int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    reassigned: int = 0

    def is_weight(self, tensor: int) -> bool:
        return bool(self.task.program.tensor_kind[tensor] == TensorKind.WEIGHT)

    def level(self, tensor: int) -> int:
        return self.placed[tensor].level if tensor in self.placed else self.task.backing

    def due(self, op: int) -> list[int]:
        """Tensors that get a place at this op, in the order in which they choose."""
        program, weights, results = self.task.program, [], []
        for tensor in dict.fromkeys(program.use_tensor.tolist()):
            if self.is_weight(tensor):
                early = self.order == "all-weights-first" and not self.task.streams_weights
                if op == (0 if early else program.live_start[tensor]):
                    weights.append(tensor)
            elif program.tensor_kind[tensor] == TensorKind.ACTIVATION and program.producer[tensor] == op:
                results.append(tensor)
        return results + weights if self.order == "results-before-weights" else weights + results

    def visit(self, op: int) -> None:
        for tensor in self.due(op):
            if self.is_weight(tensor) and self.task.streams_weights:
                self.place_streamed(tensor, op)
            elif self.is_weight(tensor):
                self.place(tensor, 0, self.task.program.num_ops - 1)
            else:
                self.place(tensor, op, int(self.task.program.live_end[tensor]))
            if self.level(tensor) != self.mapping[tensor]:
                self.reassigned += int(self.task.program.tensor_bytes[tensor])
        tensors = self.task.program.use_tensor
        ports = op_ports(self.task, {use: self.level(int(tensors[use])) for use in uses_of(self.task.program, op)})
        self.free.append(op_time(self.task, op, ports) - ports[-1])

    def place_streamed(self, tensor: int, op: int) -> None:
        """A weight comes in by the latest copy that no op waits for, and takes that time from later copies."""
        need = copy_time(self.task, tensor, prefetch=True)
        starts = [start for start in range(op) if sum(self.free[start:op]) >= need]
        if not starts:
            return
        self.place(tensor, max(starts), int(self.task.program.live_end[tensor]))
        if tensor in self.placed:
            self.windows[tensor] = (max(starts), op - 1)
            for during in range(max(starts), op):
                taken = min(need, self.free[during])
                self.free[during] -= taken
                need -= taken

    def place(self, tensor: int, start: int, end: int) -> None:
        """The first level from the wanted one down with a gap gets the block, in the smallest gap, ties lowest.

        On machines with resident weights the gap below them counts as the largest of all, weights take the upper end
        of a gap, and all blocks lie below what any op whatever reserves.
        """
        size, stays = int(self.task.program.tensor_bytes[tensor]), not self.task.streams_weights
        for level in range(self.mapping[tensor], self.task.backing):
            first, last = (0, self.task.program.num_ops - 1) if stays else (start, end)
            ceiling = ceiling_of(self.task, level, first, last)
            blocks = {other: block for other, block in self.placed.items() if block.level == level}
            fitting = [gap for gap in gaps(blocks.values(), ceiling, start, end) if gap[1] >= size]
            if fitting:
                floor = min((block.offset for other, block in blocks.items() if self.is_weight(other)), default=ceiling)
                below_weights = {gap: stays and sum(gap) == floor for gap in fitting}
                offset, room = min(fitting, key=lambda gap: (below_weights[gap], gap[1], gap[0]))
                if stays and self.is_weight(tensor):
                    offset += room - size
                self.placed[tensor] = Block(level, offset, size, start, end)
                return

    def plan(self) -> MemoryPlan:
        backing, placed = self.task.backing, sorted(self.placed.items())
        rows = [(tensor, block.level, block.offset, block.start, block.end) for tensor, block in placed]
        copies = [(tensor, backing, self.level(tensor), *window) for tensor, window in sorted(self.windows.items())]
        return MemoryPlan.of(
            self.task,
            np.array([self.level(tensor) for tensor in self.task.program.use_tensor.tolist()], dtype=np.int64),
            np.array(rows, dtype=np.int64),
            np.array(copies, dtype=np.int64),
        )
