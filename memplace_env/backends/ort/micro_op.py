"""Ops of .tflite files, run in TensorFlow Lite Micro's interpreter on the bytes of the arenas."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import helper

from memplace_env.backends.ort.model_constants import Array
from memplace_env.backends.ort.submodels import OpModel, Port

ARENA: Final = 2**28
"""Bytes of address space for an interpreter, which touches what it needs. Our choice."""


@dataclass(frozen=True)
class MicroOp(OpModel):
    """An op that runs in the interpreter.

    Attributes:
        session: a .tflite file that computes it, as a bytearray; None for the ops of `blocks.with_ends`.
        weights: by tensor of the operands that are weights, their place in `session`.
    """

    session: Any
    weights: dict[int, Array] = field(default_factory=dict)

    def bound(self, address: Callable[[int], int]) -> Callable[[], None]:
        """Return what runs the file on copies of the bytes at addresses of this machine, given by tensor.

        Weights are written into the file, as kernels take no others.
        """
        content = self.session
        if content is None:
            return lambda: None

        def run() -> None:
            for tensor, place in self.weights.items():
                place[:] = _at(address(tensor), place.size)
            inputs = [port for port in self.operands if port.tensor not in self.weights]
            arrays = [_at(address(port.tensor), _bytes(port)).view(_dtype(port)).reshape(port.shape) for port in inputs]
            for port, array in zip(self.results, ran(bytes(content), arrays, len(self.results)), strict=True):
                _at(address(port.tensor), _bytes(port))[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

        return run


def ran(content: bytes, inputs: Sequence[Array], outputs: int) -> list[Array]:
    """Return what TensorFlow Lite Micro's interpreter gives for a .tflite file, outputs by position."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA)
    for position, array in enumerate(inputs):
        interpreter.set_input(array, position)
    interpreter.invoke()
    return [np.array(interpreter.get_output(position)) for position in range(outputs)]


def _at(address: int, size: int) -> Array:
    """Return bytes of this process's memory."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _dtype(port: Port) -> np.dtype[Any]:
    return np.dtype(helper.tensor_dtype_to_np_dtype(port.element_type))


def _bytes(port: Port) -> int:
    return int(np.prod(port.shape)) * _dtype(port).itemsize
