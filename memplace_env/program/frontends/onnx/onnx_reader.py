"""Reading of an .onnx file into a ModelProto, without external data and without the bytes of its weights."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import onnx
from onnx import ModelProto, inliner

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.expansion import check_expansion
from memplace_env.program.frontends.onnx.screening import screen
from memplace_env.program.model_file import errors_named, read_bytes

OLDEST_IR: Final = 3
"""Oldest supported IR version; earlier files have no operator set version, so their operators are not defined."""

_NEWEST_IR: Final = 2**31 - 1
"""Largest IR version that ONNX's checker accepts, as files newer than the installed onnx may be readable."""


def read_model(path: str | os.PathLike[str]) -> ModelProto:
    """Read a model, with model-local functions inlined and large weights reduced to dims and type.

    External data is never opened.

    Raises:
        WorkloadError: there is no such file, it is no ONNX model, has no nodes, has a format older than IR version 3,
            or exceeds `limits.LIMITS`.
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
    with errors_named(file):
        screen(model)
        return _inlined(model)


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
