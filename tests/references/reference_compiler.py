"""The compiler by its description in plain Python: its kernels are held equal to it, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from memplace_env.placement.compiler.packing import ATTEMPTS, MOST_AROUND
from memplace_env.placement.compiler.placing_order import saved_per_byte
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind
from tests.references.reference_simulator import copy_time, op_ports, op_time, uses_of


class Block(NamedTuple):
    """Bytes offset..offset+size-1 of a level during ops start..end."""

    level: int
    offset: int
    size: int
    start: int
    end: int


class PackedBlock(NamedTuple):
    """A tensor that needs an address for `size` bytes below `ceiling` during ops start..end; small ranks go first."""

    rank: int
    tensor: int
    size: int
    start: int
    end: int
    ceiling: int


def gaps(blocks: Iterable[Block], ceiling: int, start: int, end: int) -> list[tuple[int, int]]:
    """(offset, size) of every maximal stretch of addresses below the ceiling that is free during all of start..end."""
    free, cursor = [], 0
    for block in sorted(blocks, key=lambda block: block.offset):
        if block.start <= end and block.end >= start:
            if min(block.offset, ceiling) > cursor:
                free.append((cursor, min(block.offset, ceiling) - cursor))
            cursor = max(cursor, block.offset + block.size)
    if ceiling > cursor:
        free.append((cursor, ceiling - cursor))
    return free


def ceiling_of(task: Task, level: int, first: int, last: int) -> int:
    """Bytes of a level below what any of the ops first..last reserves at its end, in whole units of the alignment."""
    reserved = task.costs.reserved_bytes[first : last + 1, level].tolist()
    left = task.accelerator.levels[level].capacity_bytes - max(reserved, default=0)
    return left - left % task.program.alignment


def pack(unplaced: Iterable[PackedBlock]) -> dict[int, int]:
    """Offset of each tensor that finds one, of not so many that other orders are not tried (`packing.MOST_LOOKS`)."""
    by_rank = sorted(unplaced)
    order, best = by_rank, place_all(by_rank)
    keys: list[Callable[[PackedBlock], int]] = [
        lambda block: -block.size * (block.end - block.start + 1),
        lambda block: block.start - block.end,
        lambda block: block.start,
    ]
    for key in keys:
        candidate = sorted(by_rank, key=key)
        if _size(placed := place_all(candidate)) > _size(best):
            order, best = candidate, placed
        if len(best) == len(by_rank):
            return offsets(best)
    order, latest, least = list(order), best, _lost(order, best)
    for _ in range(ATTEMPTS):
        failed = next((block for block in order if block.tensor not in latest), None)
        if failed is None:
            break
        order.remove(failed)
        order.insert(0, failed)
        latest = place_all(order, least)
        if _lost(order, latest) < least:
            best, least = latest, _lost(order, latest)
    return offsets(best)


def offsets(placed: dict[int, tuple[PackedBlock, int]]) -> dict[int, int]:
    """Return the offset of each tensor that was placed."""
    return {tensor: offset for tensor, (_, offset) in placed.items()}


def _size(placed: dict[int, tuple[PackedBlock, int]]) -> int:
    return sum(block.size for block, _ in placed.values())


def _lost(order: Sequence[PackedBlock], placed: dict[int, tuple[PackedBlock, int]]) -> int:
    return sum(block.size for block in order if block.tensor not in placed)


def pack_crowd(unplaced: Iterable[PackedBlock]) -> dict[int, int]:
    """Offset of each tensor that finds one, where so many are alive together that nothing is placed again."""
    return offsets(place_all(sorted(unplaced), repair=False))


def place_all(
    order: Sequence[PackedBlock], enough: int | None = None, repair: bool = True
) -> dict[int, tuple[PackedBlock, int]]:
    """Return the blocks that find an address, one by one, up to where the bytes unplaced reach `enough`."""
    placed: dict[int, tuple[PackedBlock, int]] = {}
    lost = 0
    for block in order:
        if enough is not None and lost >= enough:
            break
        offset = _lowest(block, placed)
        if offset + block.size <= block.ceiling:
            placed[block.tensor] = block, offset
        elif repair and (repaired := _repair(block, placed)) is not None:
            placed = repaired
        else:
            lost += block.size
    return placed


def _meet(one: PackedBlock, other: PackedBlock) -> bool:
    return one.start <= other.end and other.start <= one.end


def _lowest(block: PackedBlock, placed: dict[int, tuple[PackedBlock, int]]) -> int:
    """Return the begin of the lowest gap that is large enough, below whatever ceiling."""
    there = [Block(0, offset, other.size, other.start, other.end) for other, offset in placed.values()]
    endless = 1 + sum(block.offset + block.size for block in there) + block.size
    return min(offset for offset, size in gaps(there, endless, block.start, block.end) if size >= block.size)


def _repair(
    block: PackedBlock, placed: dict[int, tuple[PackedBlock, int]]
) -> dict[int, tuple[PackedBlock, int]] | None:
    """The block at 0 and those that it meets around it, by size, else by life."""
    around = sorted(other for other, _ in placed.values() if _meet(block, other))
    if len(around) > MOST_AROUND:
        return None
    for attempt in (around, sorted(around, key=lambda other: other.start - other.end)):
        trial = {tensor: there for tensor, there in placed.items() if there[0] not in around}
        trial[block.tensor] = block, 0
        fits = block.size <= block.ceiling
        for other in attempt:
            trial[other.tensor] = other, _lowest(other, trial)
            fits = fits and trial[other.tensor][1] + other.size <= other.ceiling
        if fits:
            return trial
    return None


def compile_levels(
    task: Task, levels: Sequence[int], order: str, crowded: bool = False, in_place: bool = True
) -> tuple[MemoryPlan, int]:
    """Return the plan of levels int[K], and the bytes that did not get the level they wanted."""
    wanted = list(levels)
    compiler = _Compiler(task, wanted, order, crowded, in_place)
    while not compiler.finished:
        compiler = _Compiler(task, wanted, order, crowded, in_place)
    placeable = np.flatnonzero(task.program.is_placeable).tolist()
    moved = [tensor for tensor in placeable if compiler.level[tensor] != levels[tensor]]
    return compiler.plan(), int(task.program.tensor_bytes[moved].sum())


def granted(task: Task, levels: Sequence[int], order: str) -> list[int]:
    """Return the level that each tensor gets if only bytes are counted, before addresses are looked for."""
    return _Granting(task, list(levels), order).level


@dataclass
class _Compiler:
    """Counts bytes in the schedule's order, then finds addresses.

    On streamed machines `wanted` changes where an address is missing, and `finished` is False: all must be done again.
    """

    task: Task
    wanted: list[int]
    order: str
    crowded: bool = False
    in_place: bool = True

    def __post_init__(self) -> None:
        program = self.task.program
        self.level = [self.task.backing] * program.num_tensors
        self.start = program.live_start.tolist()
        self.offset: dict[int, int] = {}
        self.copies: dict[int, tuple[int, int]] = {}
        self.taken = [[0] * program.num_ops for _ in range(self.task.backing)]
        self.weights = [0] * self.task.backing
        self.giver: dict[int, int] = {}
        self.grant()
        if self.crowded and self.streamed:  # what was refused once is not requested again
            self.wanted[:] = map(max, self.wanted, self.level)
        self.finished = True
        for level in range(self.task.backing):
            self.find_addresses(level)

    @property
    def streamed(self) -> bool:
        return self.task.streams_weights

    def is_weight(self, tensor: int) -> bool:
        return bool(self.task.program.tensor_kind[tensor] == TensorKind.WEIGHT)

    def size(self, tensor: int) -> int:
        return int(self.task.program.tensor_bytes[tensor])

    def turns(self) -> tuple[list[int], list[list[int]], list[int]]:
        """Return the tensors granted bytes before the ops, at each op, and after them."""
        program = self.task.program
        begin = program.live_start.tolist()
        seen = [tensor for tensor in dict.fromkeys(program.use_tensor.tolist()) if program.is_placeable[tensor]]
        weights = sorted((tensor for tensor in seen if self.is_weight(tensor)), key=begin.__getitem__)
        results = sorted((tensor for tensor in seen if not self.is_weight(tensor)), key=begin.__getitem__)
        if self.order == "by-size":
            results.sort(key=lambda tensor: -self.size(tensor))
            if not self.streamed:
                weights.sort(key=lambda tensor: -saved_per_byte(self.task)[tensor])
        before, after = list[int](), list[int]()
        if self.order in ("all-results-first", "by-size"):
            before, results = results, []
            after, weights = ([], weights) if self.streamed else (weights, [])
        elif self.order == "all-weights-first" and not self.streamed:
            before, weights = weights, []
        kinds = (results, weights) if self.order == "results-before-weights" else (weights, results)
        if self.order == "by-size":
            kinds = ([], sorted(weights, key=lambda tensor: (begin[tensor], -saved_per_byte(self.task)[tensor])))
        at_op = [[tensor for tensor in chain(*kinds) if begin[tensor] == op] for op in range(program.num_ops)]
        return before, at_op, after

    def grant(self) -> None:
        before, at_op, after = self.turns()
        for tensor in before:
            self.grant_tensor(tensor)
        free: list[int] = []
        for op, due in enumerate(at_op):
            for tensor in due:
                if self.is_weight(tensor) and self.streamed:
                    self.grant_streamed(tensor, op, free)
                else:
                    self.grant_tensor(tensor)
            used = self.task.program.use_tensor
            ports = op_ports(self.task, {use: self.level[int(used[use])] for use in uses_of(self.task.program, op)})
            free.append(op_time(self.task, op, ports) - ports[-1])
        for tensor in after:
            self.grant_tensor(tensor)

    def room(self, level: int, start: int, end: int) -> int:
        """Bytes that a level has left in every op start..end."""
        taken = self.taken[level]
        if self.streamed:
            return min(ceiling_of(self.task, level, op, op) - taken[op] for op in range(start, end + 1))
        ceiling = ceiling_of(self.task, level, 0, self.task.program.num_ops - 1)
        return min(ceiling - self.weights[level] - taken[op] for op in range(start, end + 1))

    def grant_tensor(self, tensor: int, least: int = 0) -> None:
        """The fastest level from the wanted one down with the bytes."""
        stays = self.is_weight(tensor) and not self.streamed
        end = int(self.task.program.live_end[tensor])
        self.giver.pop(tensor, None)
        for level in range(max(self.wanted[tensor], least), self.task.backing):
            first, last = (0, self.task.program.num_ops - 1) if stays else (self.start[tensor], end)
            giver = self.giver_in(level, tensor)
            first += giver is not None  # its bytes are counted in the op
            if first > last or self.room(level, first, last) >= self.size(tensor):
                if stays:
                    self.weights[level] += self.size(tensor)
                    self.offset[tensor] = ceiling_of(self.task, level, first, last) - self.weights[level]
                else:
                    for op in range(first, last + 1):
                        self.taken[level][op] += self.size(tensor)
                self.level[tensor] = level
                if giver is not None:
                    self.giver[tensor] = giver
                return
        self.level[tensor] = self.task.backing

    def giver_in(self, level: int, tensor: int) -> int | None:
        """The first operand in a level whose bytes the tensor may take, and no other result lies in."""
        taken = {giver for taker, giver in self.giver.items() if self.level[taker] == level}
        pairs = self.task.program.handovers.tolist() if self.in_place else []
        givers = (operand for operand, result, _ in pairs if result == tensor and self.level[operand] == level)
        return next((operand for operand in givers if operand not in taken), None)

    def grant_streamed(self, tensor: int, op: int, free: list[int]) -> None:
        """A weight comes in by the latest copy that no op waits for, and takes that time from later copies."""
        need = copy_time(self.task, tensor, prefetch=True)
        starts = [start for start in range(op) if sum(free[start:op]) >= need]
        if not starts:
            return
        self.start[tensor] = max(starts)
        self.grant_tensor(tensor)
        if self.level[tensor] < self.task.backing:
            self.copies[tensor] = (max(starts), op - 1)
            for during in range(max(starts), op):
                given = min(need, free[during])
                free[during] -= given
                need -= given

    def find_addresses(self, level: int) -> None:
        """Weights that stay lie at the top already; what finds no address steps down."""
        program = self.task.program
        by_rank = sorted(range(program.num_tensors), key=lambda k: (-self.size(k), program.live_start[k], k))
        unplaced, first = [], dict[int, int]()
        here = [tensor for tensor in by_rank if self.level[tensor] == level]
        for tensor in sorted(here, key=self.start.__getitem__):
            giver = self.giver.get(tensor, tensor)
            first[tensor] = first.get(giver, tensor)
        for rank, tensor in enumerate(by_rank):
            if first.get(tensor) == tensor and not (self.is_weight(tensor) and not self.streamed):
                start = self.start[tensor]
                end = max(int(program.live_end[other]) for other in here if first[other] == tensor)
                if self.streamed:
                    ceiling = ceiling_of(self.task, level, start, end)
                else:
                    ceiling = ceiling_of(self.task, level, 0, program.num_ops - 1) - self.weights[level]
                unplaced.append(PackedBlock(rank, tensor, self.size(tensor), start, end, ceiling))
        packed = pack_crowd(unplaced) if self.crowded else pack(unplaced)
        failed = {block.tensor for block in unplaced if block.tensor not in packed}
        self.offset |= {tensor: packed[first[tensor]] for tensor in here if first[tensor] in packed}
        for tensor in (tensor for tensor in here if first[tensor] in failed):
            if self.streamed:
                self.wanted[tensor], self.finished = level + 1, False
            else:
                self.grant_tensor(tensor, level + 1)

    def plan(self) -> MemoryPlan:
        program, backing = self.task.program, self.task.backing
        rows = []
        for tensor in np.flatnonzero(program.is_placeable).tolist():
            if self.level[tensor] < backing:
                stays = self.is_weight(tensor) and not self.streamed
                life = (0, program.num_ops - 1) if stays else (self.start[tensor], int(program.live_end[tensor]))
                rows.append((tensor, self.level[tensor], self.offset[tensor], *life))
        copies = [(tensor, backing, self.level[tensor], *window) for tensor, window in sorted(self.copies.items())]
        return self.task.make_plan(
            np.array([self.level[tensor] for tensor in program.use_tensor.tolist()], dtype=np.int64),
            np.array(rows, dtype=np.int64).reshape(-1, 5),
            np.array(copies, dtype=np.int64).reshape(-1, 5),
        )


class _Granting(_Compiler):
    def find_addresses(self, level: int) -> None:
        """Look for none."""
