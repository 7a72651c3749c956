"""Contents of a model's constants: the file's bytes, results of nodes on them, or numbers drawn from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, external_data_helper, numpy_helper

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort.carving import Carved, carve
from memplace_env.backends.ort.inputs import selected_rows
from memplace_env.backends.ort.sessions import session_of
from memplace_env.backends.ort.source import Source

Array = NDArray[Any]

_AROUND_ONE: Final = {("BatchNormalization", 4), ("Div", 1)}
"""Operators and input positions where numbers near 0 give infinite results."""

_QUANTISED: Final = {("DequantizeLinear", 0), ("QLinearConv", 3), ("QLinearConv", 8), ("QLinearMatMul", 3),
                     ("ConvInteger", 1), ("MatMulInteger", 1)}  # fmt: skip
"""Operators and input positions of quantised weights."""
_MOST: Final = {1: 7, 2: 100, 4: 100}
"""Largest drawn quantised weight, by its bytes: small, as the other factors may be drawn too. Our choice."""


class Constants:
    """The contents of a model's constants, each computed once.

    Weights that the file lacks are drawn: initialisers whose bytes are in a missing file, and a `ConstantOfShape` of
    zeros with more than one element into which nothing is scattered, as the zoo stores its weights. Their standard
    deviation is the square root of 1 / fan-in, so that products keep the size of their operands and no softmax
    saturates. Integers are quantised weights, indices into tables, or small.

    Args:
        source: the model.
        seed: seed of the draws, which depend on the name alone besides.
    """

    def __init__(self, source: Source, seed: int) -> None:
        self._source = source
        self._seed = seed
        self._known: dict[str, Array] = {}
        self._drawn: dict[str, bool] = {}
        self._fan_in = dict(_fans_in(source))
        self._readers = {
            (name, node.op_type, at) for node in source.distinct_nodes for at, name in enumerate(node.input)
        }
        self._quantised = {name for name, kind, at in self._readers if (kind, at) in _QUANTISED}
        self._written = {name for name, kind, at in self._readers if kind.startswith("Scatter") and at == 0}
        self._selected = selected_rows(source)
        self._near_one = {
            name for name, kind, at in self._readers if (kind, at) in _AROUND_ONE or (kind[-13:], at) == _SCALE
        }

    def __getitem__(self, name: str) -> Array:
        """Return the contents of a constant in its shape and type.

        Raises:
            ExecutionError: they are neither stored nor computable.
        """
        if name not in self._known:
            self._known[name] = self._contents_of(name)
        return self._known[name]

    @property
    def drawn(self) -> int:
        """Number of constants drawn so far."""
        return sum(map(self._is_drawn, self._known))

    def _contents_of(self, name: str) -> Array:
        if self._is_drawn(name):
            return self._draw(name)
        source = self._source
        if source.value(name).elements == 0:
            return np.empty(source.value(name).shape, source.dtype(name))
        if name in source.stored:
            return np.asarray(self._stored(source.stored[name]), order="C")
        data = source.value(name).data
        if data is not None and not any(map(self._is_drawn, self._ancestors(name))):
            return np.asarray(data, dtype=source.dtype(name), order="C").reshape(source.value(name).shape)
        node = source.nodes.get(name)
        if node is None or not source.value(name).constant:
            raise ExecutionError(f"{source.file.name} cannot be executed: the constant {name!r} is not in the file.")
        if node.op_type == "Constant":
            return np.asarray(self._stored(node.attribute[0].t), order="C")
        return self._computed(name)

    def _computed(self, name: str) -> Array:
        node = self._source.nodes[name]
        inputs = {operand: self[operand] for operand in node.input if operand}
        carved: Carved = carve(self._source, [name], frozenset(inputs), inputs.__getitem__)
        result: Array = session_of(carved.model, f"node {node.name!r} ({node.op_type})").run([name], inputs)[0]
        return np.asarray(result, order="C")

    def _ancestors(self, name: str) -> Iterator[str]:
        """Yield the constants that a constant is computed from."""
        values = self._source.values
        seen, waiting = {name}, [name]
        while waiting:
            node = self._source.nodes.get(waiting.pop())
            for operand in () if node is None else node.input:
                if operand and operand not in seen and operand in values and values[operand].constant:
                    seen.add(operand)
                    waiting.append(operand)
                    yield operand

    def _is_drawn(self, name: str) -> bool:
        if name not in self._drawn:
            stored, node = self._source.stored.get(name), self._source.nodes.get(name)
            if stored is not None:
                self._drawn[name] = not self._has_bytes(stored)
            else:
                self._drawn[name] = node is not None and self._is_placeholder(name, node)
        return self._drawn[name]

    def _is_placeholder(self, name: str, node: NodeProto) -> bool:
        """Return whether a node is the placeholder of a weight whose bytes were left out."""
        if node.op_type != "ConstantOfShape" or self._source.dtype(name).kind not in "fV" or name in self._written:
            return False
        fill = numpy_helper.to_array(node.attribute[0].t) if node.attribute else np.zeros(1, np.float32)
        several = self._source.value(name).elements > 1 or name in self._near_one
        return several and not fill.astype(np.float64).any()

    def _has_bytes(self, tensor: TensorProto) -> bool:
        if not external_data_helper.uses_external_data(tensor):
            return True
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(self._source.file.parent))
        except Exception:  # no such file, outside of the folder, too short: a model without its weights is fine
            return False
        tensor.data_location = TensorProto.DEFAULT
        return True

    def _stored(self, tensor: TensorProto) -> Array:
        try:
            return np.asarray(numpy_helper.to_array(tensor))
        except Exception as error:  # raises many types on damaged bytes
            raise ExecutionError(
                f"{self._source.file.name} cannot be executed: the bytes of {tensor.name!r} are damaged."
            ) from error

    def _draw(self, name: str) -> Array:
        value, dtype = self._source.value(name), self._source.dtype(name)
        rng = np.random.default_rng([self._seed, zlib.crc32(name.encode())])
        if dtype.kind == "i" and name in self._quantised and dtype.itemsize in _MOST:
            most = _MOST[dtype.itemsize]
            return rng.integers(-most, most + 1, value.shape).astype(dtype)
        if dtype.kind in "iu":
            most = self._selected.get(name, 8 if dtype.itemsize == 1 else 1)
            return rng.integers(0, most, value.shape).astype(dtype)
        if dtype.kind == "b":
            return rng.integers(0, 2, value.shape).astype(bool)
        numbers = rng.standard_normal(value.shape, dtype=np.float32)
        if name in self._near_one:
            return np.asarray(1 + 0.25 * np.tanh(numbers)).astype(dtype)
        fan_in = self._fan_in.get(name) or (value.shape[-1] if value.shape else 1)
        numbers *= np.float32(max(1, fan_in) ** -0.5)
        return numbers.astype(dtype, copy=False)


_SCALE: Final = ("Normalization", 1)


def _fans_in(source: Source) -> Iterator[tuple[str, int]]:
    """Yield for each weight of a product how many products are added up for one element of the result."""
    program = source.program
    for op in np.flatnonzero(program.gemm[:, 2] > 0):
        for tensor in program.operands(int(op)):
            yield program.tensor_value[tensor], int(program.gemm[op, 2])
