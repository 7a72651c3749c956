"""The rules of blocks: where each may lie, capacity, no shared bytes, one of a tensor in a level at a time."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.foreign import shown
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program

MOST: Final = 1_000
"""Violations after which no more blocks are compared: comparing all pairs would take hours. Our choice."""


class Violation(NamedTuple):
    """One broken rule: `rule` is its short name, `message` a sentence with the culprits."""

    rule: str
    message: str


def named(program: Program, tensor: int | np.integer) -> str:
    """Return the name of a tensor in messages."""
    return f"tensor {tensor} ({shown(program.tensor_name[tensor])})"


def broken_blocks(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Return violations of `capacity`, `reserved`, `overlap` and `duplicate`, see `violations`; about `MOST`."""
    program, accelerator = task.program, task.accelerator
    broken: list[Violation] = []
    tensor, level, offset, start, end = plan.allocations.T
    # Offset plus size without overflow, as an offset in a file may be anything up to 2**63 - 1.
    top = offset + np.minimum(program.tensor_bytes[tensor], np.iinfo(np.int64).max - offset)
    suspect = _suspects(task, plan.allocations, top)
    in_place: dict[int, list[int]] = {}
    for one, other in plan.handed_over(program):
        in_place.setdefault(one, []).append(other)
        in_place.setdefault(other, []).append(one)
    for row in np.flatnonzero(suspect):
        if len(broken) >= MOST:
            break
        memory = accelerator.levels[level[row]]
        if top[row] > memory.capacity_bytes:
            broken.append(
                Violation(
                    "capacity",
                    f"the block of {named(program, tensor[row])} in {memory.name} ends at byte {top[row]}, past its "
                    f"capacity of {memory.capacity_bytes}.",
                )
            )
        reserved = task.costs.reserved_bytes[start[row] : end[row] + 1, level[row]]
        if top[row] <= memory.capacity_bytes < top[row] + reserved.max(initial=0):
            op = start[row] + reserved.argmax()
            broken.append(
                Violation(
                    "reserved",
                    f"the block of {named(program, tensor[row])} in {memory.name} ends at byte {top[row]}, among the "
                    f"last {reserved.max()} bytes, which op {op} ({shown(program.op_name[op])}) needs for itself.",
                )
            )
        together = (level == level[row]) & (start <= end[row]) & (end >= start[row])
        together[: row + 1] &= ~suspect[: row + 1]  # a pair of suspects is reported by the first
        taken = (program.alias_of[tensor] == tensor[row]) | (program.alias_of[tensor[row]] == tensor)
        meets = together & ~(taken & (offset == offset[row])) & (offset < top[row]) & (top > offset[row])
        meets[in_place.get(int(row), [])] = False
        for other in np.flatnonzero(meets)[:MOST]:
            first, second = sorted((row, other))
            broken.append(
                Violation(
                    "overlap",
                    f"{named(program, tensor[first])} and {named(program, tensor[second])} share bytes of "
                    f"{memory.name} at op {max(start[row], start[other])}.",
                )
            )
        for _ in np.flatnonzero(together & (tensor == tensor[row]))[:MOST]:
            broken.append(
                Violation("duplicate", f"{named(program, tensor[row])} has two blocks in {memory.name} at once.")
            )
    return broken


def broken_roles(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Return violations of `alignment`, `pin` and `role`, see `violations`; `MOST` of each at most."""
    program, levels = task.program, task.accelerator.levels
    tensor, level, offset = plan.allocations.T[:3]
    broken = [
        Violation(
            "alignment",
            f"the block of {named(program, tensor[row])} in {levels[level[row]].name} begins at byte {offset[row]}, no "
            f"multiple of {program.alignment}.",
        )
        for row in np.flatnonzero(offset % program.alignment)[:MOST]
    ]
    broken += [
        Violation(
            "pin",
            f"the block of {named(program, tensor[row])} in {levels[level[row]].name} begins at byte {offset[row]}, "
            f"but is pinned to byte {task.pinned[tensor[row]]}.",
        )
        for row in np.flatnonzero((task.pinned[tensor] >= 0) & (offset != task.pinned[tensor]))[:MOST]
    ]
    copied, target = plan.transfers.T[[0, 2]]
    behind = np.union1d(program.use_tensor[plan.use_level == task.backing], copied[target == task.backing])
    there = np.concatenate([np.stack([tensor, level], 1), np.stack([behind, np.full_like(behind, task.backing)], 1)])
    for one, where in there[~task.allowed[there[:, 0], there[:, 1]]][:MOST].tolist():
        message = f"{named(program, one)} may not lie in {levels[where].name}."
        broken.append(Violation("role", message))
    return broken


def _suspects(task: Task, allocations: Ints, top: Ints) -> NDArray[np.bool_]:
    """Return bool[A], blocks to compare with every other one: those beyond a capacity, and one at least of any two that
    break a rule together.
    """
    tensor, level, offset, start, end = allocations.T
    most = task.costs.reserved_bytes.max(axis=0)
    capacity = np.array([memory.capacity_bytes for memory in task.accelerator.levels])
    suspect = top > (capacity - most)[level]
    for fast in range(task.backing):
        here = np.flatnonzero(level == fast)
        suspect[here] |= in_the_way(offset[here], top[here], start[here], end[here])
    return np.asarray(suspect | _again(tensor, level, start, end))


def in_the_way(offset: Ints, top: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Return bool[A], blocks of one level without which no two would share a byte; each shares one with another.

    Goes through time with the list of the others that are there, by address: as no two of them meet, a new one meets
    one of them only if it meets one of its two neighbours.
    """
    lows: list[int] = []
    tops: list[int] = []
    leaving: list[tuple[int, int]] = []
    met = np.zeros(len(offset), dtype=np.bool_)
    order = np.lexsort((offset, start))
    columns = (part[order].tolist() for part in (offset, top, start, end))
    for row, low, high, first, last in zip(order.tolist(), *columns, strict=True):
        while leaving and leaving[0][0] < first:
            index = bisect_left(lows, heappop(leaving)[1])
            del lows[index], tops[index]
        index = bisect_left(lows, low)
        if (index and tops[index - 1] > low) or (index < len(lows) and lows[index] < high):
            met[row] = True
            continue
        lows.insert(index, low)
        tops.insert(index, high)
        heappush(leaving, (last, low))
    return met


def _again(tensor: Ints, level: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """Return bool[A], blocks without which no tensor would have two in a level at once."""
    again = np.zeros(len(tensor), dtype=np.bool_)
    order = np.lexsort((start, tensor, level))
    same = (np.diff(tensor[order]) == 0) & (np.diff(level[order]) == 0)
    if (same & (start[order][1:] <= end[order][:-1])).any():  # two are there at once iff two neighbours are
        until: dict[tuple[int, int], int] = {}
        for row in order.tolist():
            key = int(tensor[row]), int(level[row])
            again[row] = start[row] <= until.get(key, -1)
            if not again[row]:
                until[key] = int(end[row])
    return again
