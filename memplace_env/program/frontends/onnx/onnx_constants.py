"""Constants stored in the file and constants computed from them. Large contents are never read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from memplace_env.program.frontends.onnx.rules.shape_folds import FoldSite
from memplace_env.program.lowering.graph_values import MAX_KNOWN_ELEMENTS, Array, Value, checked_value
from memplace_env.program.lowering.node_graph import Node
from memplace_env.program.model_file import MAX_RANK, Meter

PAYLOADS: Final = (
    "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "external_data",
    "data_location",
)  # fmt: skip
"""Fields of a TensorProto that hold its contents or their location."""


def drop_payload(tensor: TensorProto) -> None:
    """Remove the contents of a large tensor, and the location of contents outside the file, which are never used."""
    external = tensor.data_location == TensorProto.EXTERNAL
    if external or len(tensor.dims) > MAX_RANK or math.prod(tensor.dims) > MAX_KNOWN_ELEMENTS:
        for field in PAYLOADS:
            tensor.ClearField(field)


def stored_value(subject: str, tensor: TensorProto) -> Value:
    """Return a tensor of the file as a constant, with its contents if they are small and in the file.

    Raises:
        WorkloadError: no accelerator could hold it; the message begins with `subject`.
    """
    value = checked_value(subject, tuple(tensor.dims), tensor.data_type, constant=True)
    if value.elements > MAX_KNOWN_ELEMENTS:
        return value
    try:
        data = numpy_helper.to_array(tensor)
    except Exception:  # a weight without its bytes is valid; operators that need the contents report them missing
        return value
    return Value(value.shape, value.element_type, constant=True, data=data)


def known_value(subject: str, data: Array) -> Value:
    """Return a constant with these contents.

    Raises:
        WorkloadError: the contents are no numbers; the message begins with `subject`.
    """
    element_type = int(helper.np_dtype_to_tensor_dtype(data.dtype))
    return checked_value(subject, data.shape, element_type, constant=True, data=data)


def folded(node: Node, inputs: Sequence[Value | None], outputs: Mapping[str, Value], meter: Meter) -> dict[str, Value]:
    """Return the outputs of a node of constants: constant too, with contents if they are small and can be computed.

    Args:
        node: a node without subgraphs.
        inputs: in the node's positions, all constant.
        outputs: the outputs whose shape is known, by name.
        meter: counts the computed elements.

    Raises:
        WorkloadError: the meter's limit is exceeded.
    """
    constants = {name: Value(value.shape, value.element_type, constant=True) for name, value in outputs.items()}
    fold = node.operator.fold
    small = len(outputs) == len(list(filter(None, node.outputs))) and all(
        value.elements <= MAX_KNOWN_ELEMENTS for value in outputs.values()
    )
    if fold is None or not (small or node.operator.sized_by_data):
        return constants
    if any(value is not None and value.data is None for value in inputs):
        return constants
    work = len(inputs) * max((value.elements for value in outputs.values()), default=0)
    meter.add("elements of computed constants", work + sum(value.elements for value in inputs if value is not None))
    site = FoldSite(
        [None if value is None else value.data for value in inputs],
        [constants.get(name) for name in node.outputs],
        node.attributes,
    )
    try:
        with np.errstate(all="ignore"):
            results = fold(site)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # the contents are then merely unknown
        results = None
    for name, data in zip(node.outputs, results or (), strict=False):
        expected = constants.get(name)
        if expected is None and data.size <= MAX_KNOWN_ELEMENTS:
            constants[name] = known_value(f"The constant {name!r}", data)
        elif expected is not None and data.shape == expected.shape:
            constants[name] = replace(expected, data=_typed(data, expected.element_type))
    constants.pop("", None)
    return constants


def _typed(data: Array, element_type: int) -> Array:
    """Return contents in the NumPy type of an ONNX element type."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(data, dtype=helper.tensor_dtype_to_np_dtype(element_type)).reshape(data.shape)
