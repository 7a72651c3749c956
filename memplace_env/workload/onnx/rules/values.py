"""Outputs that ONNX's shape inference does not give: those known beforehand, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from onnx import NodeProto, TensorProto, helper

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.values import Value
from memplace_env.workload.onnx.constants import known_value, stored_value

_LITERALS: Final[Mapping[str, type[np.generic]]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
"""Attributes of a constant other than a whole tensor, and the type of what they make."""


def literal(node: NodeProto, inputs: Sequence[Value]) -> Value:
    """The one attribute of a node without inputs.

    Raises:
        WorkloadError: no attribute or several, or one that is no dense tensor of numbers.
    """
    what = f"The constant {node.output[0]!r}"
    if len(node.attribute) != 1:
        raise WorkloadError(f"{what} has {len(node.attribute)} contents instead of one; the file is damaged.")
    attribute = node.attribute[0]
    if attribute.name == "value":
        return stored_value(what, attribute.t)
    if attribute.name in _LITERALS:
        content = helper.get_attribute_value(attribute)
        return known_value(what, np.asarray(content, dtype=_LITERALS[attribute.name]))
    raise WorkloadError(f"{what} is given as {attribute.name!r}; only dense tensors of numbers are supported.")


def dims_of_input(node: NodeProto, inputs: Sequence[Value]) -> Value:
    """The input's dims from attribute `start` to attribute `end`."""
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    shape = inputs[0].shape
    part = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
    return known_value("A shape", np.array(part, dtype=np.int64))


def elements_of_input(node: NodeProto, inputs: Sequence[Value]) -> Value:
    """The input's number of elements."""
    return known_value("A size", np.array(inputs[0].elements, dtype=np.int64))


def like_first(first: Value, *others: Value) -> Value:
    """A tensor of the first input's shape and type."""
    return Value(first.shape, first.element_type)


def comparison(a: Value, b: Value) -> Value:
    """A bool for each pair of elements."""
    return Value(np.broadcast_shapes(a.shape, b.shape), TensorProto.BOOL)
