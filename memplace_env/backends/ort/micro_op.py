"""Ops of .tflite files, run in TensorFlow Lite Micro's interpreter on the bytes of the arenas."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from memplace_env.backends.export.micro_runtime import ARENA
from memplace_env.backends.ort.model_constants import Array
from memplace_env.backends.ort.submodels import OpModel, Port


@dataclass(frozen=True)
class MicroOp(OpModel):
    """An op that runs in the interpreter.

    Attributes:
        session: a .tflite file that computes it, as a bytearray; None for the ops of `blocks.with_ends`.
        weights: by tensor of the operands that are weights, their bytes in `session`.
    """

    session: Any
    weights: dict[int, Array] = field(default_factory=dict)

    def bound(self, address: Callable[[int], int]) -> Callable[[], None]:
        """Return what runs the file on copies of the bytes at addresses of this machine, given by tensor.

        Weights are written into the file, as kernels take no others.
        """
        places = {port.tensor: _at(address(port.tensor), port) for port in (*self.operands, *self.results)}
        inputs = [places[port.tensor] for port in self.operands if port.tensor not in self.weights]

        def run() -> None:
            for tensor, stored in self.weights.items():
                stored[:] = places[tensor].reshape(-1).view(np.uint8)
            for port, array in zip(self.results, ran(bytes(self.session), inputs, self.results), strict=True):
                places[port.tensor][...] = array

        return run if self.session is not None else lambda: None


def ran(content: bytes, inputs: Sequence[Array], results: Sequence[Port]) -> list[Array]:
    """Return what the interpreter gives for a .tflite file with these results."""
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(content, arena_size=ARENA)
    for position, array in enumerate(inputs):
        interpreter.set_input(array, position)
    interpreter.invoke()
    return [np.array(interpreter.get_output(at)).reshape(port.shape) for at, port in enumerate(results)]


def _at(address: int, port: Port) -> Array:
    """Return a tensor in this process's memory."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(port.element_type))
    content = (ctypes.c_uint8 * (int(np.prod(port.shape)) * dtype.itemsize)).from_address(address)
    array: Array = np.ctypeslib.as_array(content).view(dtype).reshape(port.shape)
    return array
