"""Small ONNX models for tests, written to a file and loaded from it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import Program, TensorKind

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

Dims = Sequence[int | str | None]


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node named like its first output; `inputs` and `outputs` are separated by blanks, `_` is an absent one."""
    names = [[name if name != "_" else "" for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op_type, *names, name=f"n_{names[1][0]}", **attributes)


def weight(name: str, dims: Sequence[int], element_type: int = TensorProto.FLOAT) -> TensorProto:
    """An initialiser without contents."""
    return TensorProto(name=name, dims=dims, data_type=element_type)


def model(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Dims],
    outputs: str = "y",
    constants: Mapping[str, Any] | None = None,
    types: Mapping[str, int] | None = None,
    opset: int = 20,
    **settings: Any,
) -> ModelProto:
    """A model; a constant is given by its dims (a tuple, no contents), its contents, or as a TensorProto."""
    types = types or {}
    given = [helper.make_tensor_value_info(k, types.get(k, TensorProto.FLOAT), v) for k, v in inputs.items()]
    wanted = [helper.make_tensor_value_info(k, types.get(k, TensorProto.FLOAT), None) for k in outputs.split()]
    stored = [_constant(name, value) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", given, wanted, initializer=stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9, **settings)


def load_model(proto: ModelProto, **settings: Any) -> Program:
    """The Program of a model, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        return load_onnx(path, **settings)


def load(nodes: Sequence[NodeProto], inputs: Mapping[str, Dims], outputs: str = "y", **settings: Any) -> Program:
    """`load_model(model(...))`; fusion is off unless asked for."""
    keys = ("constants", "types", "opset", "functions")
    made = model(nodes, inputs, outputs, **{key: settings.pop(key) for key in keys if key in settings})
    return load_model(made, **({"fusion": "none"} | settings))


def names(program: Program, kind: TensorKind) -> set[str]:
    """Names of a program's tensors of one kind."""
    return {name for name, k in zip(program.tensor_name, program.tensor_kind, strict=True) if k == kind}


def operand_names(program: Program, op: int) -> list[str]:
    """Names of what an op reads, in order."""
    return [program.tensor_name[tensor] for tensor in program.operands(op)]


def result_names(program: Program, op: int) -> list[str]:
    """Names of what an op makes, in order."""
    return [program.tensor_name[tensor] for tensor in program.results(op)]


def tensor(program: Program, name: str) -> int:
    """The number of a tensor."""
    return program.tensor_name.index(name)


def _constant(name: str, value: Any) -> TensorProto:
    if isinstance(value, TensorProto):
        return value
    return weight(name, value) if isinstance(value, tuple) else onnx.numpy_helper.from_array(np.asarray(value), name)
