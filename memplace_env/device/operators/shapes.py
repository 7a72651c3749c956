"""Operators whose results follow from shapes and constants, so that they run before the network does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from memplace_env.device.operators.node import Builder, Kernel, Node


def _constant(node: Node) -> Kernel:
    (value,) = node.attributes.values()
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=torch.int64 if _whole(value) else torch.float32)
    return lambda: value


def _whole(value: int | float | list[int] | list[float]) -> bool:
    return all(isinstance(each, int) for each in (value if isinstance(value, list) else [value]))


def _constant_of_shape(node: Node) -> Kernel:
    shape, fill = node.integers(0) or (), node.attribute("value", torch.zeros(1))
    return lambda _: fill.reshape(()).expand(shape)


def _range(node: Node) -> Kernel:
    start, limit, delta = (node.constant(at) for at in range(3))
    numbers = torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)
    return lambda *_: numbers


def _shape(node: Node) -> Kernel:
    """In the host wherever the input is: a constant."""
    sizes = torch.tensor(node.shape(0), dtype=torch.int64)[node.attribute("start", 0) : node.attribute("end", None)]
    return lambda _: sizes


def _size(node: Node) -> Kernel:
    return lambda x: torch.tensor(x.numel())


SHAPES: Final[Mapping[str, Builder]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
}
