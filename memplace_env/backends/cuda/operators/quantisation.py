"""Quantisation and dequantisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode
from memplace_env.backends.cuda.torch_dtypes import torch_dtype


def _shape(node: OperatorNode) -> tuple[int, ...]:
    """Return the shape of scales and zero points that broadcasts along their axis."""
    if node.attribute("block_size", 0):
        raise node.error("blocks of scales are not supported")
    if node.shape(1) in ((), (1,)):
        return ()
    axis = node.axis(1, len(node.shape(0)))
    return tuple(-1 if at == axis else 1 for at in range(len(node.shape(0))))


def _quantise(node: OperatorNode) -> Kernel:
    shape, named = _shape(node), node.attribute("output_dtype", 0)

    def quantise(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        dtype = zero.dtype if zero is not None else torch_dtype(named) if named else torch.uint8
        rounded = torch.round(x / scale.reshape(shape))
        if zero is not None:
            rounded = rounded + zero.reshape(shape)
        limits = torch.iinfo(dtype)
        return rounded.clamp(limits.min, limits.max).to(dtype)

    return quantise


def _dequantise(node: OperatorNode) -> Kernel:
    shape = _shape(node)

    def dequantise(x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
        numbers = x.to(scale.dtype)
        return (numbers if zero is None else numbers - zero.reshape(shape)) * scale.reshape(shape)

    return dequantise


QUANTISATION: Final[Mapping[str, Builder]] = {"DequantizeLinear": _dequantise, "QuantizeLinear": _quantise}
