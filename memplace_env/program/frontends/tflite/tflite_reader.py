"""Parsing of a .tflite file: the schema is that of the `tflite` package, the checks are our own."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.lazy import required
from memplace_env.program.frontends.tflite.tflite_model import Call, Tensor, TfliteModel, custom
from memplace_env.program.lowering.graph_values import MAX_KNOWN_ELEMENTS, Array, Shape, type_number

_IDENTIFIER: Final = b"TFL3"
_BUILTIN_CODE: Final = 10  # slot of `builtin_code` in the vtable of an OperatorCode
_NUMPY_TYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "BOOL": np.dtype("?"),
}
_CALLED: Final = ("ThenSubgraphIndex", "ElseSubgraphIndex", "CondSubgraphIndex", "BodySubgraphIndex")
"""Options that name a graph of the file which runs whenever its operator does."""
_WINDOW: Final = ("Padding", "StrideW", "StrideH", "FilterWidth", "FilterHeight")
_CUSTOM_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Convolution2DTransposeBias": _WINDOW[:3],
    "MaxPoolingWithArgmax2D": _WINDOW,
    "MaxUnpooling2D": _WINDOW,
}
"""Options of MediaPipe's operators, int32 each, as TFLite's structs of parameters have them at their start."""
_ONNX_NAMES: Final = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}


def parse(data: bytes) -> TfliteModel:
    """Return the first graph in a file's bytes, and those that it calls.

    Vectors of a valid file do not overlap, so all reads together may take no more than a small multiple of the file's
    size; that bounds time and memory for damaged files.

    Raises:
        WorkloadError: the bytes are no TensorFlow Lite model, are damaged, or contain parts that cannot be placed.
    """
    if data[4:8] != _IDENTIFIER:
        raise WorkloadError("The file is not a TensorFlow Lite model (it lacks the mark TFL3); pass a .tflite file.")
    reader = _Reader(library(), data)
    try:
        return reader.model()
    except WorkloadError:
        raise
    except Exception as error:  # the package checks nothing, so damaged offsets raise anything
        raise WorkloadError("The file is damaged or cut short; get it again.") from error


def library() -> Any:
    """Return the package `tflite`.

    Raises:
        WorkloadError: it is not installed.
    """
    return required("tflite", "Reading a .tflite file needs", "the package tflite", "tflite", WorkloadError)


class _Reader:
    def __init__(self, library: Any, data: bytes) -> None:
        self._library = library
        self._data = data
        self._left = 4 * len(data)
        self._names: set[str] = set()

    def model(self) -> TfliteModel:
        root = self._library.Model.GetRootAs(self._data, 0)
        op_types = [self._op_type(root.OperatorCodes(i)) for i in range(self._counted(root.OperatorCodesLength(), 4))]
        number = self._counted(root.SubgraphsLength(), 4)
        first = self._graph(root, 0, op_types)
        graphs: dict[int, TfliteModel] = {}
        once: set[int] = set()
        open_calls = list(first.calls)
        while open_calls:
            call = open_calls.pop()
            once.add(call.option("InitSubgraphIndex"))
            for index in (call.option(name) for name in _CALLED):
                if 0 < index < number and index not in graphs:
                    graphs[index] = self._graph(root, index, op_types)
                    open_calls += graphs[index].calls
        return replace(first, graphs=graphs, unused=len(set(range(1, number)) - graphs.keys() - once))

    def _graph(self, root: Any, number: int, op_types: list[str]) -> TfliteModel:
        graph = root.Subgraphs(number)
        tensors = self._tensors(root, graph)
        calls = []
        for index in range(self._counted(graph.OperatorsLength(), 4)):
            operator = graph.Operators(index)
            inputs, outputs = (_chosen(tensors, self._ints(operator, field)) for field in ("Inputs", "Outputs"))
            op_type = op_types[operator.OpcodeIndex()]
            calls.append(Call(index, op_type, inputs, outputs, self._options(operator, op_type)))
        ends = (_chosen(tensors, self._ints(graph, field)) for field in ("Inputs", "Outputs"))
        inputs, outputs = (tuple(tensor for tensor in end if tensor is not None) for end in ends)
        return TfliteModel(tuple(calls), inputs, outputs)

    def _counted(self, length: int, size: int) -> int:
        """Return a vector's length, or raise ValueError if the vectors together are longer than the file allows."""
        self._left -= length * size
        if self._left < 0:
            raise ValueError("its parts are longer than the file")
        return length

    def _ints(self, table: Any, field: str) -> tuple[int, ...]:
        if not self._counted(getattr(table, f"{field}Length")(), 4):
            return ()
        return tuple(getattr(table, f"{field}AsNumpy")().tolist())

    def _tensors(self, root: Any, graph: Any) -> list[Tensor]:
        tensors: list[Tensor] = []
        for index in range(self._counted(graph.TensorsLength(), 4)):
            table = graph.Tensors(index)
            text = table.Name() or b""
            self._counted(len(text), 1)
            # A zero byte marks the names of views that the loader makes.
            name = text.decode(errors="replace").replace("\0", "") or f"tensor_{index}"
            while name in self._names:
                name = f"{name}#{index}"
            self._names.add(name)
            tensors.append(self._tensor(root, table, name))
        return tensors

    def _tensor(self, root: Any, table: Any, name: str) -> Tensor:
        type_name = _names(self._library.TensorType).get(table.Type(), f"type {table.Type()}")
        shape = self._ints(table, "Shape")
        open_dims = self._ints(table, "ShapeSignature")
        if any(dim < 0 for dim in (*shape, *open_dims[1:])):
            raise WorkloadError(
                f"Tensor {name!r} has the dynamic shape {list(open_dims or shape)}; convert the model with fixed ones."
            )
        element_type = type_number(_ONNX_NAMES.get(type_name, type_name))
        data, sparse = self._contents(root, table, shape, type_name), table.Sparsity() is not None
        return Tensor(name, shape, element_type, data, table.IsVariable(), sparse)

    def _contents(self, root: Any, table: Any, shape: Shape, type_name: str) -> Array | None:
        dtype = _NUMPY_TYPES.get(type_name)
        number = table.Buffer()
        if dtype is None or not 0 < number < root.BuffersLength():
            return None
        buffer = root.Buffers(number)
        size = buffer.DataLength()
        if not 0 < size <= MAX_KNOWN_ELEMENTS * dtype.itemsize or size != math.prod(shape) * dtype.itemsize:
            return None
        self._counted(size, 1)
        stored: bytes = buffer.DataAsNumpy().tobytes()
        return np.frombuffer(stored, dtype).reshape(shape)

    def _op_type(self, code: Any) -> str:
        number = max(_builtin_code(code), code.DeprecatedBuiltinCode())
        name = _names(self._library.BuiltinOperator).get(number, f"builtin operator {number}")
        if name == "CUSTOM":
            return custom((code.CustomCode() or b"").decode(errors="replace"))
        return name

    def _options(self, operator: Any, op_type: str) -> Any:
        """Return the table of options as an object of its class, or one with its accessors; None if there is none."""
        names = next((names for name, names in _CUSTOM_OPTIONS.items() if custom(name) == op_type), ())
        if names:
            numbers = struct.unpack_from(f"<{len(names)}i", operator.CustomOptionsAsNumpy().tobytes())
            options = dict(zip(names, numbers, strict=True))
            options["Padding"] -= 1  # the enumeration in a struct begins with "unknown"
            return SimpleNamespace(**{name: partial(int, number) for name, number in options.items()})
        table, kind = operator.BuiltinOptions(), operator.BuiltinOptionsType()
        if table is None or not kind:
            return None
        options = getattr(self._library, _names(self._library.BuiltinOptions)[kind])()
        options.Init(table.Bytes, table.Pos)
        return options


def _builtin_code(code: Any) -> int:
    """Return the field of four bytes, 0 if absent; the package's accessor ignores numbers that fit the older field."""
    table = code._tab
    offset = table.Offset(_BUILTIN_CODE)
    number: int = struct.unpack_from("<i", table.Bytes, table.Pos + offset)[0] if offset else 0
    return number


@cache
def _names(enumeration: type) -> dict[int, str]:
    """Return the names of an enumeration's members, by number."""
    return {number: name for name, number in vars(enumeration).items() if isinstance(number, int)}


def _chosen(tensors: list[Tensor], numbers: tuple[int, ...]) -> tuple[Tensor | None, ...]:
    """Return tensors by number, None for -1."""
    if any(not -1 <= number < len(tensors) for number in numbers):
        raise ValueError("an operator names a tensor that does not exist")
    return tuple(None if number < 0 else tensors[number] for number in numbers)
