"""Offsets of a plan for TensorFlow Lite Micro: those in one arena, each for a tensor's whole life."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from memplace_env._lib.errors import PlanError
from memplace_env.backends.export.tflite_lives import Life
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

ALIGNMENT: Final = 16
"""Bytes; TensorFlow Lite Micro's arenas and all addresses in them are multiples of it."""
AT_RUN_TIME: Final = -1
"""Offset of tensors that are placed at run time, and of constants."""
FAST: Final = 0
"""The level of the arena."""


@dataclass(frozen=True)
class OfflinePlan:
    """The contents of the metadata, and why some tensors are left to be placed at run time.

    Attributes:
        offsets: by index of the file's tensors, bytes from the start of the arena; -1: at run time, or a constant.
        arena_bytes: size up to the last byte of a tensor with an offset; those placed at run time may need more.
        left: number of tensors without an offset that are no constants, by reason: "not in the plan" (fused away, or no
            tensor of its own to the plan), "elsewhere" (not in fast memory at one address for its whole life),
            "unaligned" (no multiple of 16), "conflict" (would overlap another, as the file runs operators that the plan
            leaves out).
    """

    offsets: tuple[int, ...]
    arena_bytes: int
    left: Mapping[str, int]

    @property
    def planned(self) -> int:
        """Number of tensors with an offset."""
        return sum(offset != AT_RUN_TIME for offset in self.offsets)


def offline_plan(task: Task, plan: MemoryPlan, lives: Mapping[int, Life], count: int) -> OfflinePlan:
    """Return the offsets that are valid whatever else the run time places around them.

    The run time copies nothing, so a tensor has an offset only if its block is in fast memory for all of its life. It
    runs every operator of the file, also those whose results are unused, so overlaps are checked again by the file's
    lives. A view has the offset of its source if its kernel works in place.

    Args:
        task: the plan's task.
        plan: valid for it.
        lives: lives of the file's tensors, by index.
        count: number of the file's tensors.

    Raises:
        PlanError: if the program is sliced or has other sizes than the file, or no tensor can have an offset.
    """
    program = task.program
    if program.slices is not None:
        raise PlanError(
            "The plan places slices of tensors, and TensorFlow Lite Micro gives each tensor one address; make the plan "
            "without --slices, or pass --format c."
        )
    number = {name: tensor for tensor, name in enumerate(program.tensor_name)}
    at = _fast_offsets(task, plan)
    groups: dict[int, list[int]] = {}
    left: Counter[str] = Counter()
    for index, life in sorted(lives.items()):
        tensor = number.get(life.source)
        if tensor is None:
            left["not in the plan"] += 1
            continue
        if program.tensor_kind[tensor] == TensorKind.WEIGHT:
            continue
        size = int(program.tensor_bytes[tensor])
        if size != life.bytes:
            raise PlanError(
                f"Tensor {life.tensor.name!r} has {size:,} bytes in the plan and {life.bytes:,} in the file; make the "
                "plan with the file's own types, --dtype float32 for a model of floats."
            )
        groups.setdefault(tensor, []).append(index)
    offsets, placed = [AT_RUN_TIME] * count, _Placed()
    for tensor, members in groups.items():
        offset = at.get(tensor)
        lifetime = min(lives[index].first for index in members), max(lives[index].last for index in members)
        top = 0 if offset is None else offset + int(program.tensor_bytes[tensor])
        if offset is None or any(lives[index].tensor.variable for index in members):
            left["elsewhere"] += len(members)
        elif offset % ALIGNMENT:
            left["unaligned"] += len(members)
        elif not placed.add(offset, top, *lifetime):
            left["conflict"] += len(members)
        else:
            for index in members:
                offsets[index] = offset
    if all(offset == AT_RUN_TIME for offset in offsets):
        why = ", ".join(f"{count} {reason}" for reason, count in left.items()) or "all are constants"
        raise PlanError(
            f"No tensor of the plan has an offset that TensorFlow Lite Micro could use ({why}); it needs a plan that "
            f"keeps results in {task.accelerator.levels[FAST].name} for as long as they live, at multiples of 16."
        )
    if placed.top >= 2**31:
        raise PlanError(f"The plan's arena takes {placed.top:,} bytes, and the metadata's offsets have 32 bits.")
    return OfflinePlan(tuple(offsets), placed.top, dict(left))


class _Placed:
    """Blocks with offsets; a new one is added only if it overlaps none of them."""

    def __init__(self) -> None:
        self._blocks: list[tuple[int, int, int, int]] = []
        self.top = 0

    def add(self, low: int, top: int, first: int, last: int) -> bool:
        """Add the bytes low..top - 1 during first..last if they are free then, and return whether they were."""
        free = all(
            top <= other_low or other_top <= low or last < other_first or other_last < first
            for other_low, other_top, other_first, other_last in self._blocks
        )
        if free:
            self._blocks.append((low, top, first, last))
            self.top = max(self.top, top)
        return free


def _fast_offsets(task: Task, plan: MemoryPlan) -> dict[int, int]:
    """Return by tensor the offset of its block in fast memory if that covers the tensor's whole life."""
    program = task.program
    first = program.live_start.copy()
    first[program.tensor_kind == TensorKind.INPUT] = 0
    return {
        tensor: offset
        for tensor, level, offset, start, end in plan.allocations.tolist()
        if level == FAST and start <= first[tensor] and end >= program.live_end[tensor]
    }
