"""Offsets for TensorFlow Lite Micro's arena, of the tensors that a plan keeps in fast memory all their life."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

import tflite

from memplace_env._lib.errors import PlanError, WorkloadError
from memplace_env._lib.units import ceil_div, round_up
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.frontends.tflite.tflite_model import Tensor, TfliteModel
from memplace_env.program.lowering.graph_values import deployed_bits
from memplace_env.program.program import TensorKind

ALIGNMENT: Final = 16
"""Bytes; TensorFlow Lite Micro's arenas and all addresses in them are multiples of it."""
AT_RUN_TIME: Final = -1
"""Offset of tensors that are placed at run time, and of constants."""
FAST: Final = 0
"""The level of the arena."""


@dataclass(frozen=True)
class OfflinePlan:
    """The contents of the metadata "OfflineMemoryAllocation", and why some tensors are left to be placed at run time.

    Attributes:
        offsets: by index of the file's tensors, those of the first graph first, bytes from the start of the arena; -1:
            at run time, or a constant.
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
    lives. A view has the offset of its source if its kernel works in place, a result that of an operand where the plan
    says so.

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
        if size != round_up(life.bytes, program.alignment):
            raise PlanError(
                f"Tensor {life.tensor.name!r} has {size:,} bytes in the plan and {life.bytes:,} in the file; make the "
                "plan with the file's own types, --dtype float32 for a model of floats."
            )
        groups.setdefault(tensor, []).append(index)
    pairs = {tuple(plan.allocations[[one, other], 0].tolist()) for one, other in plan.handed_over(program)}
    offsets, placed = [AT_RUN_TIME] * count, _Placed({*pairs, *((other, one) for one, other in pairs)})
    for tensor, members in groups.items():
        offset = at.get(tensor)
        lifetime = min(lives[index].first for index in members), max(lives[index].last for index in members)
        top = 0 if offset is None else offset + int(program.tensor_bytes[tensor])
        if offset is None or any(lives[index].tensor.variable for index in members):
            left["elsewhere"] += len(members)
        elif offset % ALIGNMENT:
            left["unaligned"] += len(members)
        elif not placed.add(tensor, offset, top, *lifetime):
            left["conflict"] += len(members)
        else:
            for index in members:
                offsets[index] = offset
    if all(offset == AT_RUN_TIME for offset in offsets):
        why = ", ".join(f"{count} {reason}" for reason, count in left.items()) or "all are constants"
        raise PlanError(
            f"No tensor of the plan has an offset that TensorFlow Lite Micro could use ({why}); it needs a plan that "
            f"keeps results in {task.accelerator.levels[FAST].name} for as long as they live, at multiples of 16, as "
            "--align 16 makes."
        )
    if placed.top >= 2**31:
        raise PlanError(f"The plan's arena takes {placed.top:,} bytes, and the metadata's offsets have 32 bits.")
    return OfflinePlan(tuple(offsets), placed.top, dict(left))


class _Placed:
    """Blocks with offsets; a new one is added only if it overlaps none of them.

    Args:
        pairs: tensors that may share their bytes while one operator reads one and writes the other.
    """

    def __init__(self, pairs: Set[tuple[int, ...]]) -> None:
        self._blocks: list[tuple[int, int, int, int, int]] = []
        self._pairs = pairs
        self.top = 0

    def add(self, tensor: int, low: int, top: int, first: int, last: int) -> bool:
        """Add the bytes low..top - 1 during first..last if they are free then, and return whether they were."""
        free = all(
            top <= other_low
            or other_top <= low
            or last < other_first
            or other_last < first
            or ((tensor, other) in self._pairs and min(last, other_last) == max(first, other_first))
            for other, other_low, other_top, other_first, other_last in self._blocks
        )
        if free:
            self._blocks.append((tensor, low, top, first, last))
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


IN_PLACE: Final = ("RESHAPE",)
"""Operators whose kernels do nothing if operand and result have the same address."""


@dataclass(slots=True)
class Life:
    """The lifetime of a tensor that an operator, or the caller, reads or writes.

    Attributes:
        tensor: the file's description of it.
        source: name of the tensor that it is a view of; its own if it is no view.
        first, last: times between which its bytes are its own, both inclusive; 0 is before the first operator, i + 1
            is operator i. Inputs begin at 0, outputs last until the end.
        written: whether the caller or an operator writes it.
    """

    tensor: Tensor
    source: str
    first: int
    last: int
    written: bool = False

    @property
    def changes(self) -> bool:
        """True if its bytes are no constant."""
        return self.written or self.tensor.variable

    @property
    def bytes(self) -> int:
        """Size in the file's type, 0 for a type without one."""
        return ceil_div(math.prod(self.tensor.shape) * (deployed_bits(self.tensor.element_type, None) or 0), 8)


def tensor_count(data: bytes) -> int:
    """Return the number of tensors of a file's bytes, those of all its graphs, as the metadata counts them.

    Raises:
        WorkloadError: the file is damaged.
    """
    try:
        root = tflite.Model.GetRootAs(data, 0)
        return sum(root.Subgraphs(number).TensorsLength() for number in range(root.SubgraphsLength()))
    except Exception as error:  # the package raises many types on damaged files
        raise WorkloadError("The model's graphs are damaged; get the file again.") from error


def lives_of(model: TfliteModel, data: bytes) -> dict[int, Life]:
    """Return the life of each tensor by its index in the file, constants included.

    Args:
        model: the model that `parse` read from `data`.
        data: the file's bytes.
    """
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    lives: dict[int, Life] = {}

    def touch(index: int, tensor: Tensor, time: int) -> Life:
        life = lives.setdefault(index, Life(tensor, tensor.name, time, time))
        life.last = max(life.last, time)
        return life

    for index, tensor in zip(_present(graph, "Inputs"), model.inputs, strict=True):
        touch(index, tensor, 0).written = True
    for call in model.calls:
        operator, time = graph.Operators(call.index), call.index + 1
        operands = [*_numbered(operator, "Inputs", call.inputs)]
        results = [*_numbered(operator, "Outputs", call.outputs)]
        for index, tensor in operands:
            touch(index, tensor, time)
        for index, tensor in results:
            touch(index, tensor, time).written = True
        if call.op_type in IN_PLACE and operands and len(results) == 1:
            (source, _), (result, _) = operands[0], results[0]
            if lives[source].bytes == lives[result].bytes:
                lives[result].source = lives[source].source
    for index, tensor in zip(_present(graph, "Outputs"), model.outputs, strict=True):
        touch(index, tensor, len(model.calls) + 1)
    return lives


def _numbered(operator: Any, field: str, tensors: tuple[Tensor | None, ...]) -> Iterator[tuple[int, Tensor]]:
    """Return the operator's tensors that are present, each with its index in the file."""
    return zip(_present(operator, field), (tensor for tensor in tensors if tensor is not None), strict=True)


def _present(table: Any, field: str) -> list[int]:
    """Return a vector of indices, without the -1 of tensors that are absent."""
    indices = map(getattr(table, field), range(getattr(table, f"{field}Length")()))
    return [index for index in indices if index >= 0]
