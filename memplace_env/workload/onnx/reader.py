"""Reads an .onnx file into a ModelProto without external data and without the bytes of its weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import onnx
from onnx import ModelProto, inliner

from memplace_env.errors import WorkloadError
from memplace_env.workload.model_file import read_bytes
from memplace_env.workload.onnx.expansion import check_expansion
from memplace_env.workload.onnx.screening import screen

OLDEST_IR: Final = 3
"""Earlier files carry no operator set version, so their operators have no defined meaning."""

_NEWEST_IR: Final = 2**31 - 1
"""The most that ONNX's own checker can be told; files newer than the installed onnx may do no harm."""


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """The model in a file, model-local functions inlined, large weights reduced to dims and type.

    External data is never opened, wherever it points.

    Raises:
        WorkloadError: no such file, not an ONNX model, no nodes, a format older than IR version 3, or more than
            `limits.LIMITS` says.
    """
    file = Path(path)
    model = _parse(file, read_bytes(file, ".onnx"))
    if not model.graph.node:
        raise WorkloadError(f"{file} is not a usable ONNX model: its graph has no nodes; export the model again.")
    if not OLDEST_IR <= model.ir_version <= _NEWEST_IR or not model.opset_import:
        raise WorkloadError(
            f"{file} has ONNX IR version {model.ir_version} and {len(model.opset_import)} operator set imports; "
            f"IR version {OLDEST_IR} with an operator set is the oldest that works, so export the model again."
        )
    try:
        screen(model)
        return _inlined(model)
    except WorkloadError as error:
        raise WorkloadError(f"{file.name}: {error}") from error


def _parse(file: Path, data: bytes) -> ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's back ends raise different types
        raise WorkloadError(f"{file} is not an ONNX model, or is cut short ({error}); get the file again.") from error


def _inlined(model: ModelProto) -> ModelProto:
    if not model.functions:
        return model
    check_expansion(model)
    try:
        inlined = inliner.inline_local_functions(model)
    except Exception as error:  # bindings raise different types
        raise WorkloadError(f"Its local functions cannot be inlined ({error}); export it with them inlined.") from error
    screen(inlined)
    return inlined
