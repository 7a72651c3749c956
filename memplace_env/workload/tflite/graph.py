"""From TFLite's operators to the graph in ONNX's terms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.graph import Graph, Node
from memplace_env.workload.lowered.operator import Operator
from memplace_env.workload.lowered.rules import views
from memplace_env.workload.lowered.values import Shape, Value, checked_value
from memplace_env.workload.names import stem
from memplace_env.workload.onnx.operator_table import OPERATORS
from memplace_env.workload.tflite.model import Call, Model, Tensor
from memplace_env.workload.tflite.operator_table import ROWS, Row

_RESHAPE: Final = OPERATORS["Reshape"]


def to_graph(model: Model) -> Graph:
    """The graph of a model. A tensor is constant if nothing makes it, or if it follows from constants alone.

    A variable, which keeps its contents from one inference to the next, is like an input of the graph: read as often as
    its readers are; writing it back is not counted (our choice).

    Raises:
        WorkloadError: an operator without a row, or what contradicts itself.
    """
    return _Translation(model).graph()


class _Translation:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._values: dict[str, Value] = {}
        self._nodes: list[Node] = []
        self._made = {tensor.name for call in model.calls for tensor in call.outputs if tensor is not None}

    def graph(self) -> Graph:
        for tensor in self._model.inputs:
            self._values[tensor.name] = _value(tensor, constant=False)
        for call in self._model.calls:
            with _blaming(call):
                self._translate(call, _row(call))
        for tensor in self._model.outputs:
            self._operand(tensor)
        outputs = tuple(tensor.name for tensor in self._model.outputs)
        return Graph(tuple(self._nodes), self._values, outputs, channels_last=True)

    def _translate(self, call: Call, row: Row) -> None:
        positions = range(len(call.inputs)) if row.inputs is None else row.inputs
        given = [call.inputs[i] if i is not None and i < len(call.inputs) else None for i in positions]
        names = ["" if tensor is None else self._operand(tensor) for tensor in given]
        constant = row.of_shapes or all(self._values[name].constant for name in names if name)
        results = [tensor for tensor in call.outputs if tensor is not None]
        for tensor in results:
            if tensor.name in self._values:
                raise ValueError(f"{tensor.name!r} is made although it is there already")
            self._values[tensor.name] = _value(tensor, constant=constant)
        if row.of_shapes or not results:
            return
        if row.operator.view is views.always:
            self._check_elements(names[0], call.result.shape)
        for position, shape in row.shapes(call).items():
            names[position] = self._reshaped(names[position], shape, f"{call.index}.{position}")
        activation = call.option("FusedActivationFunction") if row.activates else 0
        operator = _activated(row.operator) if activation else row.operator
        outputs = tuple("" if tensor is None else tensor.name for tensor in call.outputs)
        self._nodes.append(Node(operator, results[0].name, tuple(names), outputs, row.attributes(call)))

    def _operand(self, tensor: Tensor) -> str:
        """The name of an operand, which is entered if nothing makes it."""
        if tensor.name not in self._values:
            if tensor.name in self._made:
                raise ValueError(f"{tensor.name!r} is read before it is made")
            self._values[tensor.name] = _value(tensor, constant=not tensor.variable)
        return tensor.name

    def _reshaped(self, name: str, shape: Shape, place: str) -> str:
        """A view of an operand in another shape; no tensor of the file has a zero byte in its name."""
        self._check_elements(name, shape)
        view = f"{stem(name)}\0{place}"
        self._values[view] = replace(self._values[name], shape=shape, data=None)
        self._nodes.append(Node(_RESHAPE, view, (name,), (view,), {}))
        return view

    def _check_elements(self, name: str, shape: Shape) -> None:
        if self._values[name].elements != math.prod(shape):
            raise ValueError(f"{name!r} of shape {list(self._values[name].shape)} cannot be {list(shape)}")


def _row(call: Call) -> Row:
    row = ROWS.get(call.op_type)
    if row is None:
        raise WorkloadError(f"No cost is known for {call}; convert the model without it, or cut the model before it.")
    return row


def _activated(operator: Operator) -> Operator:
    """The operator with an activation inside: one operation more for each element of its result, as ONNX's take."""
    own = operator.vector_ops
    return replace(
        operator,
        activated=True,
        vector_ops=lambda site: (0 if own is None else own(site)) + site.result.elements,
    )


def _value(tensor: Tensor, *, constant: bool) -> Value:
    what = f"Tensor {tensor.name!r}"
    return checked_value(what, tensor.shape, tensor.element_type, constant=constant, data=tensor.data)


@contextmanager
def _blaming(call: Call) -> Iterator[None]:
    """Turns what a rule trips over in a damaged operator into a WorkloadError."""
    try:
        yield
    except WorkloadError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WorkloadError(f"Options and operands of {call} do not fit together: {error}.") from error
