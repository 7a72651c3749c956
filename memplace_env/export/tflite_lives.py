"""How long TensorFlow Lite Micro keeps each tensor of a model, and which share their bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import tflite

from memplace_env.workload.lowered.values import deployed_bits
from memplace_env.workload.tflite.model import Model, Tensor

IN_PLACE: Final = ("RESHAPE",)
"""Operators that do nothing where operand and result have the same address, as their kernels say."""


@dataclass(slots=True)
class Life:
    """A tensor that some operator, or the caller, touches.

    Attributes:
        tensor: what the file says of it.
        source: name of the tensor that it is a view of; its own if of none.
        first, last: times between which its bytes are its own, both inclusive; 0 is before the first operator, i + 1
            is operator i. Inputs begin at 0, outputs last until the end.
    """

    tensor: Tensor
    source: str
    first: int
    last: int

    @property
    def bytes(self) -> int:
        """Size in the file's type, 0 for a type without one."""
        return -(-math.prod(self.tensor.shape) * (deployed_bits(self.tensor.element_type, None) or 0) // 8)


def lives_of(model: Model, data: bytes) -> dict[int, Life]:
    """The life of each tensor by its index in the file, constants included.

    Args:
        model: what `parse` read from `data`.
        data: the file's bytes.
    """
    graph = tflite.Model.GetRootAs(data, 0).Subgraphs(0)
    lives: dict[int, Life] = {}

    def touch(index: int, tensor: Tensor, time: int) -> Life:
        life = lives.setdefault(index, Life(tensor, tensor.name, time, time))
        life.last = max(life.last, time)
        return life

    for index, tensor in zip(_present(graph, "Inputs"), model.inputs, strict=True):
        touch(index, tensor, 0)
    for call in model.calls:
        operator, time = graph.Operators(call.index), call.index + 1
        operands = [*_numbered(operator, "Inputs", call.inputs)]
        results = [*_numbered(operator, "Outputs", call.outputs)]
        for index, tensor in operands + results:
            touch(index, tensor, time)
        if call.op_type in IN_PLACE and operands and len(results) == 1:
            (source, _), (result, _) = operands[0], results[0]
            if lives[source].bytes == lives[result].bytes:
                lives[result].source = lives[source].source
    for index, tensor in zip(_present(graph, "Outputs"), model.outputs, strict=True):
        touch(index, tensor, len(model.calls) + 1)
    return lives


def _numbered(operator: Any, field: str, tensors: tuple[Tensor | None, ...]) -> Iterator[tuple[int, Tensor]]:
    """The operator's tensors that are present, each with its index in the file."""
    return zip(_present(operator, field), (tensor for tensor in tensors if tensor is not None), strict=True)


def _present(table: Any, field: str) -> list[int]:
    """A vector of indices, without the -1 of tensors that are absent."""
    return [
        index for place in range(getattr(table, f"{field}Length")()) if (index := getattr(table, field)(place)) >= 0
    ]
