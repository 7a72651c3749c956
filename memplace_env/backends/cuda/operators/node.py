"""A node of a network, from which an operator's function is built, and element types in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import helper
from torch import Tensor

from memplace_env._lib.errors import ExecutionError


def torch_dtype(element_type: int) -> torch.dtype:
    """Return PyTorch's type of an ONNX `TensorProto.DataType`; NumPy's extension types have the same names."""
    dtype: torch.dtype = getattr(torch, str(helper.tensor_dtype_to_np_dtype(element_type)))
    return dtype


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return a copy of an array as a tensor in the host."""
    if array.dtype.kind != "V":
        return torch.from_numpy(np.array(array, order="C"))
    bits = np.array(array, order="C").view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(bits).view(getattr(torch, str(array.dtype)))


Kernel = Callable[..., Tensor | tuple[Tensor, ...]]
"""Returns a node's results from all its inputs, None for those left out; it never waits for the device."""


class OperatorNode(NamedTuple):
    """A node of a network with static shapes.

    Attributes:
        op_type: operator of the default domain of ONNX.
        name: name for messages.
        attributes: as plain Python, tensors in the host.
        constants: inputs that are known before the network runs, in the host, by position.
        shapes: shapes of all inputs, None for those left out.
        outputs: number of outputs.
        opset: version of the operators.
        device: PyTorch's name of the device.
    """

    op_type: str
    name: str
    attributes: Mapping[str, Any]
    constants: Mapping[int, Tensor]
    shapes: tuple[tuple[int, ...] | None, ...]
    outputs: int
    opset: int
    device: str

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def has(self, at: int) -> bool:
        """Return whether an input is present."""
        return at < len(self.shapes) and self.shapes[at] is not None

    def shape(self, at: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        shape = self.shapes[at] if at < len(self.shapes) else None
        if shape is None:
            raise self.error(f"its input {at} is missing")
        return shape

    def constant(self, at: int) -> Tensor:
        """Return an input that determines the shape of the result, in the host.

        Raises:
            ExecutionError: it is known only when the network runs.
        """
        if at not in self.constants:
            raise self.error(f"its input {at} decides about shapes and is known only when the network runs")
        return self.constants[at]

    def integers(self, at: int, attribute: str = "") -> tuple[int, ...] | None:
        """Return integers that are an input, or an attribute in older versions; None if neither is present.

        Raises:
            ExecutionError: they are known only when the network runs.
        """
        if self.has(at):
            return tuple(self.constant(at).flatten().tolist())
        given = self.attributes.get(attribute)
        return None if given is None else tuple(given)

    def once(self, at: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """Return a function that converts an input; a constant is converted here, once."""
        if at not in self.constants:
            return change
        changed = change(self.constants[at]).to(self.device)
        return lambda _: changed

    def axis(self, default: int, rank: int) -> int:
        """Return the attribute `axis`, counted from the front."""
        axis = int(self.attribute("axis", default))
        return axis + rank if axis < 0 else axis

    def error(self, why: str) -> ExecutionError:
        """Return the error that the node cannot run."""
        return ExecutionError(f"Node {self.name!r} ({self.op_type}) cannot run on a device: {why}.")


Builder = Callable[[OperatorNode], Kernel]


def always(kernel: Kernel) -> Builder:
    """Return a builder that ignores the node, for operators without attributes."""
    return lambda node: kernel
