"""Lifetimes of a model's tensors in TensorFlow Lite Micro, and which tensors share their bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import tflite

from memplace_env._lib.units import ceil_div
from memplace_env.program.frontends.lowered.graph_values import deployed_bits
from memplace_env.program.frontends.tflite.tflite_model import Tensor, TfliteModel

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
    """

    tensor: Tensor
    source: str
    first: int
    last: int

    @property
    def bytes(self) -> int:
        """Size in the file's type, 0 for a type without one."""
        return ceil_div(math.prod(self.tensor.shape) * (deployed_bits(self.tensor.element_type, None) or 0), 8)


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
    """Return the operator's tensors that are present, each with its index in the file."""
    return zip(_present(operator, field), (tensor for tensor in tensors if tensor is not None), strict=True)


def _present(table: Any, field: str) -> list[int]:
    """Return a vector of indices, without the -1 of tensors that are absent."""
    indices = map(getattr(table, field), range(getattr(table, f"{field}Length")()))
    return [index for index in indices if index >= 0]
