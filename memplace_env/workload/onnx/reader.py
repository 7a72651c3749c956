"""Reads an .onnx file into a ModelProto without external data and without the bytes of its weights."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, inliner

from memplace_env.errors import WorkloadError
from memplace_env.workload.model_file import read_bytes
from memplace_env.workload.onnx.constants import drop_payload
from memplace_env.workload.onnx.topology import subgraphs

OLDEST_IR = 3
"""Earlier files carry no operator set version, so their operators have no defined meaning."""


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """The model in a file, model-local functions inlined, large weights reduced to dims and type.

    External data is never opened, wherever it points.

    Raises:
        WorkloadError: no such file, not an ONNX model, no nodes, or a format older than IR version 3.
    """
    file = Path(path)
    model = _parse(file, read_bytes(file, ".onnx"))
    if not model.graph.node:
        raise WorkloadError(f"{file} is not a usable ONNX model: its graph has no nodes; export the model again.")
    if model.ir_version < OLDEST_IR or not model.opset_import:
        raise WorkloadError(
            f"{file} has ONNX IR version {model.ir_version} and {len(model.opset_import)} operator set imports; "
            f"IR version {OLDEST_IR} with an operator set is the oldest that works, so export the model again."
        )
    for tensor in model.graph.initializer:
        drop_payload(tensor)
    model = _inlined(file, model)
    if not _is_text(model.graph):
        raise WorkloadError(f"{file} has names that are not UTF-8 text, so it is damaged; get the file again.")
    return model


def _parse(file: Path, data: bytes) -> ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's back ends raise different types
        raise WorkloadError(f"{file} is not an ONNX model, or is cut short ({error}); get the file again.") from error


def _is_text(graph: GraphProto) -> bool:
    """Whether all names are text: protobuf hands out bytes where they are not valid UTF-8."""
    declared = (*graph.input, *graph.output, *graph.value_info)
    dims = (dim.dim_param for value in declared for dim in value.type.tensor_type.shape.dim)
    names = chain(
        (value.name for value in (*declared, *graph.initializer)),
        dims,
        *((node.name, node.op_type, node.domain, *node.input, *node.output) for node in graph.node),
        *((attribute.name for attribute in node.attribute) for node in graph.node),
    )
    inner = (subgraph for node in graph.node for subgraph in subgraphs(node))
    return all(isinstance(name, str) for name in names) and all(map(_is_text, inner))


def _inlined(file: Path, model: ModelProto) -> ModelProto:
    if not model.functions:
        return model
    try:
        return inliner.inline_local_functions(model)
    except Exception as error:  # bindings raise different types
        raise WorkloadError(f"{file}: its local functions cannot be inlined ({error}).") from error
