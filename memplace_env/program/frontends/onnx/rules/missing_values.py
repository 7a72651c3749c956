"""Outputs that ONNX's shape inference does not give: constants, shapes that it leaves out, poolings that round up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from onnx import NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_constants import known_value, stored_value
from memplace_env.program.lowering.graph_values import Shape, Value
from memplace_env.program.lowering.node_graph import Site

_LITERALS: Final[Mapping[str, type[np.generic]]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
"""Element types of a constant by the attribute that holds it, apart from whole tensors."""


def literal(node: NodeProto, inputs: Sequence[Value]) -> Value:
    """Return the constant in the one attribute of a node.

    Raises:
        WorkloadError: there is no attribute or several, or one that is no dense tensor of numbers.
    """
    subject = f"The constant {node.output[0]!r}"
    if len(node.attribute) != 1:
        raise WorkloadError(f"{subject} has {len(node.attribute)} contents instead of one; the file is damaged.")
    attribute = node.attribute[0]
    if attribute.name == "value":
        return stored_value(subject, attribute.t)
    if attribute.name in _LITERALS:
        content = helper.get_attribute_value(attribute)
        return known_value(subject, np.asarray(content, dtype=_LITERALS[attribute.name]))
    raise WorkloadError(f"{subject} is given as {attribute.name!r}; only dense tensors of numbers are supported.")


def dims_of_input(node: NodeProto, inputs: Sequence[Value]) -> Value:
    """Return the input's dims from attribute `start` to attribute `end`."""
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    shape = inputs[0].shape
    part = shape[attributes.get("start", 0) : attributes.get("end", len(shape))]
    return known_value("A shape", np.array(part, dtype=np.int64))


def elements_of_input(node: NodeProto, inputs: Sequence[Value]) -> Value:
    """Return the input's number of elements."""
    return known_value("A size", np.array(inputs[0].elements, dtype=np.int64))


def like_first(site: Site) -> tuple[Value, ...]:
    """Return a tensor of the first input's shape and type."""
    first = site.needed(0)
    return (Value(first.shape, first.element_type),)


def comparison(site: Site) -> tuple[Value, ...]:
    """Return a bool for each pair of elements."""
    return (Value(np.broadcast_shapes(site.needed(0).shape, site.needed(1).shape), TensorProto.BOOL),)


def pooled(site: Site, shape: Shape) -> Shape:
    """Return the shape of a pooling without windows that start behind the image, in the padding.

    ONNX's inference counts them where it rounds up; no kernel makes them.
    """
    if not site.attribute("ceil_mode", 0):
        return shape
    image, ones = site.needed(0).shape[2:], (1,) * (len(shape) - 2)
    padded = site.attribute("auto_pad", b"NOTSET") == b"NOTSET"
    pads = (padded and site.attribute("pads", ())) or (0,) * len(image)
    starts = zip(shape[2:], site.attribute("strides", ()) or ones, image, pads, strict=False)
    return (*shape[:2], *(size - ((size - 1) * stride >= length + pad) for size, stride, length, pad in starts))
