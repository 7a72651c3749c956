"""Constants: what is stored in the file, and what can be computed from it. Large contents are never looked at."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from memplace_env.workload.lowered.operator import Operator
from memplace_env.workload.lowered.values import MAX_KNOWN_ELEMENTS, Array, Value, checked_value

_PAYLOADS: Final = (
    "raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data", "external_data",
)  # fmt: skip


def drop_payload(tensor: TensorProto) -> None:
    """Removes the contents of a large tensor, of which only dims and type are ever used."""
    if math.prod(tensor.dims) > MAX_KNOWN_ELEMENTS:
        for field in _PAYLOADS:
            tensor.ClearField(field)


def stored_value(what: str, tensor: TensorProto) -> Value:
    """A tensor of the file as a constant, with its contents if they are small and in the file.

    Raises:
        WorkloadError: no accelerator could hold it; the message starts with `what`.
    """
    value = checked_value(what, tuple(tensor.dims), tensor.data_type, constant=True)
    if tensor.data_location == TensorProto.EXTERNAL or value.elements > MAX_KNOWN_ELEMENTS:
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


def folded(
    node: NodeProto, operator: Operator, inputs: Sequence[Value | None], outputs: Mapping[str, Value], opset: int
) -> dict[str, Value]:
    """The outputs of a node of constants: constant too, with contents if they are small and can be computed.

    Args:
        node: without subgraphs.
        operator: the node's.
        inputs: in the node's positions, all constant.
        outputs: those whose shape is known, by name.
        opset: version of the operator set.
    """
    constants = {name: Value(value.shape, value.element_type, constant=True) for name, value in outputs.items()}
    small = len(outputs) == len(list(filter(None, node.output))) and all(
        value.elements <= MAX_KNOWN_ELEMENTS for value in outputs.values()
    )
    if not (small or operator.sized_by_data):
        return constants
    if any(value is not None and value.data is None for value in inputs):
        return constants
    results = _computed(node, [None if value is None else value.data for value in inputs], opset)
    for name, data in zip(filter(None, node.output), results or (), strict=False):
        expected = constants.get(name)
        if expected is None and data.size <= MAX_KNOWN_ELEMENTS:
            constants[name] = known_value(f"The constant {name!r}", data)
        elif expected is not None and data.shape == expected.shape:
            constants[name] = Value(expected.shape, expected.element_type, constant=True, data=data)
    return constants


def _computed(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array] | None:
    """Outputs of a node by ONNX's own reference implementation, None if that cannot compute them."""
    from onnx.reference import ReferenceEvaluator  # takes 50 ms, and not every model has shape arithmetic

    graph = GraphProto(node=[node])
    feeds = {}
    for name, data in zip(node.input, inputs, strict=True):
        if data is not None and name not in feeds:
            graph.input.add().name = name
            feeds[name] = data
    for name in filter(None, node.output):
        graph.output.add().name = name
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(graph, opsets={"": opset}).run(None, feeds)
    except Exception:  # any op may be missing or fail in its own way; the value is then merely unknown
        return None
    return [np.asarray(result) for result in results]
