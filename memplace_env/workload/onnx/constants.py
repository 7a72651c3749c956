"""Constants: what is stored in the file, and what can be computed from it. Large contents are never looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from memplace_env.workload.limits import MAX_RANK, Meter
from memplace_env.workload.lowered.graph import Node
from memplace_env.workload.lowered.values import MAX_KNOWN_ELEMENTS, Array, Value, checked_value
from memplace_env.workload.onnx.rules.folds import FoldSite

PAYLOADS: Final = (
    "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "external_data",
    "data_location",
)  # fmt: skip


def drop_payload(tensor: TensorProto) -> None:
    """Removes what is never used: the contents of a large tensor, and where contents outside of the file are."""
    external = tensor.data_location == TensorProto.EXTERNAL
    if external or len(tensor.dims) > MAX_RANK or math.prod(tensor.dims) > MAX_KNOWN_ELEMENTS:
        for field in PAYLOADS:
            tensor.ClearField(field)


def stored_value(what: str, tensor: TensorProto) -> Value:
    """A tensor of the file as a constant, with its contents if they are small and in the file.

    Raises:
        WorkloadError: no accelerator could hold it; the message starts with `what`.
    """
    value = checked_value(what, tuple(tensor.dims), tensor.data_type, constant=True)
    if value.elements > MAX_KNOWN_ELEMENTS:
        return value
    try:
        data = numpy_helper.to_array(tensor)
    except Exception:  # a weight without its bytes is fine: what needs the contents says so
        return value
    return Value(value.shape, value.element_type, constant=True, data=data)


def known_value(what: str, data: Array) -> Value:
    """A constant of these contents.

    Raises:
        WorkloadError: it holds no numbers; the message starts with `what`.
    """
    element_type = int(helper.np_dtype_to_tensor_dtype(data.dtype))
    return checked_value(what, data.shape, element_type, constant=True, data=data)


def folded(node: Node, inputs: Sequence[Value | None], outputs: Mapping[str, Value], meter: Meter) -> dict[str, Value]:
    """The outputs of a node of constants: constant too, with contents if they are small and can be computed.

    Args:
        node: without subgraphs.
        inputs: in the node's positions, all constant.
        outputs: those whose shape is known, by name.
        meter: counts the elements.

    Raises:
        WorkloadError: too many were computed already.
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
    except (ArithmeticError, LookupError, TypeError, ValueError):  # the value is then merely unknown
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
    """Contents in the type that they have as an element type of ONNX."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(data, dtype=helper.tensor_dtype_to_np_dtype(element_type)).reshape(data.shape)
