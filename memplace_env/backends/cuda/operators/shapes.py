"""Operators whose results follow from shapes and constants, so that they run before the network does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode


def _constant(node: OperatorNode) -> Kernel:
    (value,) = node.attributes.values()
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=torch.int64 if _whole(value) else torch.float32)
    return lambda: value


def _whole(value: int | float | list[int] | list[float]) -> bool:
    return all(isinstance(item, int) for item in (value if isinstance(value, list) else [value]))


def _constant_of_shape(node: OperatorNode) -> Kernel:
    shape, fill = node.integers(0) or (), node.attribute("value", torch.zeros(1))
    return lambda _: fill.reshape(()).expand(shape)


def _range(node: OperatorNode) -> Kernel:
    start, limit, delta = (node.constant(at) for at in range(3))
    numbers = torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)
    return lambda *_: numbers


def _shape(node: OperatorNode) -> Kernel:
    """Return a kernel whose result is a constant in the host, wherever the input is."""
    sizes = torch.tensor(node.shape(0), dtype=torch.int64)[node.attribute("start", 0) : node.attribute("end", None)]
    return lambda _: sizes


def _size(node: OperatorNode) -> Kernel:
    return lambda x: torch.tensor(x.numel())


SHAPES: Final[Mapping[str, Builder]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
}
