"""Writes small .tflite files for tests, and loads them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite

from memplace_env.program.frontends.tflite import load_tflite
from memplace_env.program.program import Program

OPTIONS = {
    "ADD": "Add",
    "ARG_MAX": "ArgMax",
    "AVERAGE_POOL_2D": "Pool2D",
    "BATCH_MATMUL": "BatchMatMul",
    "CALL_ONCE": "CallOnce",
    "CONCATENATION": "Concatenation",
    "CONV_2D": "Conv2D",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2D",
    "FULLY_CONNECTED": "FullyConnected",
    "IF": "If",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalization",
    "MAX_POOL_2D": "Pool2D",
    "MUL": "Mul",
    "SVDF": "SVDF",
    "TRANSPOSE_CONV": "TransposeConv",
    "VAR_HANDLE": "VarHandle",
    "WHILE": "While",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNN",
}
"""Names of the tables of options, without "Options"; other operators are written without any."""


@dataclass(frozen=True)
class T:
    """A tensor: dims, type, contents as int32 if there are any, whether it is a variable or sparse, open dims."""

    shape: Sequence[int]
    type: str = "INT8"
    data: Sequence[Any] | None = None
    variable: bool = False
    sparse: bool = False
    signature: Sequence[int] | None = None


@dataclass(frozen=True)
class Op:
    """An operator: `inputs` and `outputs` are names separated by blanks, `_` is an absent one."""

    op_type: str
    inputs: str
    outputs: str
    options: Mapping[str, Any] = field(default_factory=dict)
    custom: Sequence[int] = ()


@dataclass(frozen=True)
class Graph:
    """A graph behind the first one; tensors of all graphs have distinct names."""

    ops: Sequence[Op]
    inputs: str = ""
    outputs: str = ""

    def uses(self, name: str) -> bool:
        texts = [self.inputs, self.outputs, *(text for op in self.ops for text in (op.inputs, op.outputs))]
        return any(name in text.split() for text in texts)


def op(op_type: str, inputs: str, outputs: str, **options: Any) -> Op:
    """An `Op` with its options by the names of the schema; windows have stride 1 and no padding unless they say so."""
    windows = {"Padding": 1, "StrideH": 1, "StrideW": 1}
    windowed = OPTIONS.get(op_type) in ("Conv2D", "DepthwiseConv2D", "Pool2D", "TransposeConv")
    return Op(op_type, inputs, outputs, {**(windows if windowed else {}), **options})


def write(
    ops: Sequence[Op], tensors: Mapping[str, T], inputs: str = "x", outputs: str = "y", graphs: Sequence[Graph] = ()
) -> bytes:
    """The bytes of a file; an `op_type` that TFLite does not know is a custom operator."""
    builder = flatbuffers.Builder(1024)
    names = list(tensors)
    others = [name for name in names if any(graph.uses(name) for graph in graphs)]
    each = [(Graph(ops, inputs, outputs), [name for name in names if name not in others])]
    each += [(graph, list(filter(graph.uses, names))) for graph in graphs]
    op_types = sorted({op.op_type for graph, _ in each for op in graph.ops})
    buffers = [_buffer(builder, None), *(_buffer(builder, tensor.data) for tensor in tensors.values())]
    codes = [_code(builder, op_type) for op_type in op_types]
    offsets = {name: _tensor(builder, name, tensors[name], number + 1) for number, name in enumerate(names)}
    subgraphs = []
    for graph, own in each:
        vectors = {
            "Tensors": _offsets(builder, [offsets[name] for name in own]),
            "Inputs": _numbers(builder, own, graph.inputs),
            "Outputs": _numbers(builder, own, graph.outputs),
            "Operators": _offsets(builder, [_operator(builder, op, op_types, own) for op in graph.ops]),
        }
        subgraphs.append(_table(builder, "SubGraph", vectors))
    root = _table(
        builder,
        "Model",
        {
            "Version": 3,
            "OperatorCodes": _offsets(builder, codes),
            "Subgraphs": _offsets(builder, subgraphs),
            "Buffers": _offsets(builder, buffers),
        },
    )
    builder.Finish(root, b"TFL3")
    return bytes(builder.Output())


def load_bytes(data: bytes, **settings: Any) -> Program:
    """The Program of a file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        return load_tflite(path, **settings)


def load(
    ops: Sequence[Op],
    tensors: Mapping[str, T],
    inputs: str = "x",
    outputs: str = "y",
    graphs: Sequence[Graph] = (),
    **settings: Any,
) -> Program:
    """`load_bytes(write(...))`; fusion is off unless asked for."""
    return load_bytes(write(ops, tensors, inputs, outputs, graphs), **({"fusion": "none"} | settings))


def _table(builder: flatbuffers.Builder, name: str, fields: Mapping[str, Any]) -> int:
    getattr(tflite, f"{name}Start")(builder)
    for key, value in fields.items():
        getattr(tflite, f"{name}Add{key}")(builder, value)
    return int(getattr(tflite, f"{name}End")(builder))


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _numbers(builder: flatbuffers.Builder, names: list[str], text: str) -> int:
    return _ints(builder, [-1 if name == "_" else names.index(name) for name in text.split()])


def _ints(builder: flatbuffers.Builder, numbers: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(numbers, dtype=np.int32)))


def _buffer(builder: flatbuffers.Builder, data: Sequence[Any] | None) -> int:
    if data is None:
        return _table(builder, "Buffer", {})
    content = builder.CreateByteVector(np.array(data, dtype="<i4").tobytes())
    return _table(builder, "Buffer", {"Data": content})


def _code(builder: flatbuffers.Builder, op_type: str) -> int:
    number = getattr(tflite.BuiltinOperator, op_type, None)
    if number is None:
        name = builder.CreateString(op_type)
        return _table(builder, "OperatorCode", {"BuiltinCode": tflite.BuiltinOperator.CUSTOM, "CustomCode": name})
    return _table(builder, "OperatorCode", {"BuiltinCode": number, "DeprecatedBuiltinCode": min(number, 127)})


def _tensor(builder: flatbuffers.Builder, name: str, tensor: T, buffer: int) -> int:
    fields: dict[str, Any] = {"Shape": _ints(builder, tensor.shape), "Name": builder.CreateString(name)}
    if tensor.signature is not None:
        fields["ShapeSignature"] = _ints(builder, tensor.signature)
    if tensor.sparse:
        fields["Sparsity"] = _table(builder, "SparsityParameters", {})
    more = {"Type": getattr(tflite.TensorType, tensor.type), "Buffer": buffer, "IsVariable": tensor.variable}
    return _table(builder, "Tensor", fields | more)


def _operator(builder: flatbuffers.Builder, op: Op, op_types: list[str], names: list[str]) -> int:
    fields: dict[str, Any] = {
        "OpcodeIndex": op_types.index(op.op_type),
        "Inputs": _numbers(builder, names, op.inputs),
        "Outputs": _numbers(builder, names, op.outputs),
    }
    if op.op_type in OPTIONS:
        kind = f"{OPTIONS[op.op_type]}Options"
        texts = {key: builder.CreateString(value) for key, value in op.options.items() if isinstance(value, str)}
        fields["BuiltinOptions"] = _table(builder, kind, {**op.options, **texts})
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, kind)
    if op.custom:
        fields["CustomOptions"] = builder.CreateByteVector(np.array(op.custom, dtype="<i4").tobytes())
    return _table(builder, "Operator", fields)
