"""Translation of TFLite's operators to the graph in ONNX's terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.tflite.tflite_model import Call, Tensor, TfliteModel
from memplace_env.program.frontends.tflite.tflite_operators import ROWS, TfliteOperator
from memplace_env.program.lowering.graph_values import Shape, Value, checked_value
from memplace_env.program.lowering.node_graph import ErrorsOfRules, Node, NodeGraph, Operator
from memplace_env.program.lowering.rules import views
from memplace_env.program.model_file import stem

_RESHAPE: Final = OPERATORS["Reshape"]

_TRANSPOSE: Final = replace(OPERATORS["Transpose"], view=views.always)
"""An operand that its reader takes in another order, so that nothing is moved."""


def to_graph(model: TfliteModel) -> NodeGraph:
    """Return the graph of a model. A tensor is constant if no operator writes it, or if it follows from constants.

    A variable, which keeps its contents from one inference to the next, is like an input of the graph: every reader
    reads it; writing it back is not counted (our choice).

    Raises:
        WorkloadError: an operator has no row, or the model contradicts itself.
    """
    return _Translation(model).graph()


class _Translation:
    def __init__(self, model: TfliteModel) -> None:
        self._model = model
        self._values: dict[str, Value] = {}
        self._nodes: list[Node] = []
        self._made = {tensor.name for call in model.calls for tensor in call.outputs if tensor is not None}

    def graph(self) -> NodeGraph:
        for tensor in self._model.inputs:
            self._values[tensor.name] = _value(tensor, constant=False)
        for call in self._model.calls:
            with ErrorsOfRules(f"Options and operands of {call}"):
                self._translate(call, _row(call))
        for tensor in self._model.outputs:
            self._operand(tensor)
        outputs = tuple(tensor.name for tensor in self._model.outputs)
        return NodeGraph(tuple(self._nodes), self._values, outputs, channels_last=True)

    def _translate(self, call: Call, row: TfliteOperator) -> None:
        positions = range(len(call.inputs)) if row.inputs is None else row.inputs
        given = [call.inputs[i] if i is not None and i < len(call.inputs) else None for i in positions]
        names = ["" if tensor is None else self._operand(tensor) for tensor in given]
        constant = row.of_shapes or all(self._values[name].constant for name in names if name)
        results = [tensor for tensor in call.outputs if tensor is not None]
        for tensor in results:
            if tensor.name in self._values:
                raise ValueError(f"{tensor.name!r} is made although it exists already")
            self._values[tensor.name] = _value(tensor, constant=constant)
        if row.of_shapes or not results:
            return
        if row.operator.view is views.always:
            self._check_elements(names[0], call.result.shape)
        for position, shape in row.shapes(call).items():
            names[position] = self._viewed(_RESHAPE, names[position], shape, {}, f"{call.index}.{position}")
        for position, order in row.orders(call).items():
            own = self._values[names[position]].shape
            shape, perm = tuple(own[axis] for axis in order), {"perm": order}
            names[position] = self._viewed(_TRANSPOSE, names[position], shape, perm, f"{call.index}.{position}")
        activation = call.option("FusedActivationFunction") if row.activates else 0
        operator = _activated(row.operator) if activation else row.operator
        outputs = tuple("" if tensor is None else tensor.name for tensor in call.outputs)
        self._nodes.append(Node(operator, results[0].name, tuple(names), outputs, row.attributes(call)))

    def _operand(self, tensor: Tensor) -> str:
        """Return the name of an operand, after entering its value if no operator writes it."""
        if tensor.name not in self._values:
            if tensor.name in self._made:
                raise ValueError(f"{tensor.name!r} is read before it is made")
            self._values[tensor.name] = _value(tensor, constant=not tensor.variable)
        return tensor.name

    def _viewed(self, operator: Operator, name: str, shape: Shape, attributes: Mapping[str, Any], suffix: str) -> str:
        """Return a view of an operand in another shape; no tensor of the file has a zero byte in its name."""
        self._check_elements(name, shape)
        view = f"{stem(name)}\0{suffix}"
        self._values[view] = replace(self._values[name], shape=shape, data=None)
        self._nodes.append(Node(operator, view, (name,), (view,), attributes))
        return view

    def _check_elements(self, name: str, shape: Shape) -> None:
        if self._values[name].elements != math.prod(shape):
            raise ValueError(f"{name!r} of shape {list(self._values[name].shape)} cannot be {list(shape)}")


def _row(call: Call) -> TfliteOperator:
    row = ROWS.get(call.op_type)
    if row is None:
        raise WorkloadError(f"No cost is known for {call}; convert the model without it, or cut the model before it.")
    return row


def _activated(operator: Operator) -> Operator:
    """Return the operator with an activation inside: one operation more per element of its result, as ONNX's take."""
    own = operator.vector_ops
    return replace(
        operator,
        activated=True,
        vector_ops=lambda site: (0 if own is None else own(site)) + site.result.elements,
    )


def _value(tensor: Tensor, *, constant: bool) -> Value:
    subject = f"Tensor {tensor.name!r}"
    return checked_value(subject, tensor.shape, tensor.element_type, constant=constant, data=tensor.data)
