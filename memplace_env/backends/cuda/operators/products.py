"""Operators that add up products: convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import torch
from torch import Tensor

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode, always
from memplace_env.backends.cuda.operators.windows import halves, padded, windows_of


def _conv(node: OperatorNode) -> Kernel:
    windows = windows_of(node, node.shape(1)[2:])
    group, none = node.attribute("group", 1), (0,) * len(windows.sizes)
    even = windows.begin == windows.end

    def convolve(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        x, padding = (x, windows.begin) if even else (padded(x, windows.begin, windows.end), none)
        return torch.convolution(x, weight, bias, windows.strides, padding, windows.dilations, False, none, group)

    return convolve


def _conv_transpose(node: OperatorNode) -> Kernel:
    windows = windows_of(node, node.shape(1)[2:])
    group, none = node.attribute("group", 1), (0,) * len(windows.sizes)
    more = tuple(node.attribute("output_padding", none))
    begin, end = windows.begin, windows.end
    auto, shape = node.attribute("auto_pad", "NOTSET"), node.attribute("output_shape", None)
    every = list(zip(windows.sizes, windows.strides, windows.spans, more, strict=True))
    full = [(size - 1) * stride + span + extra for size, stride, span, extra in every]
    if shape is not None:
        more = tuple(extra + max(0, size - most) for extra, size, most in zip(more, shape, full, strict=True))
    elif auto.startswith("SAME"):
        shape = [size * stride for size, stride, _, _ in every]
    if shape is not None:
        begin, end = halves([max(0, most - size) for most, size in zip(full, shape, strict=True)], auto)
    plain = begin == end and all(extra < stride for extra, stride in zip(more, windows.strides, strict=True))

    def convolve(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if plain:
            return torch.convolution(x, weight, bias, windows.strides, begin, windows.dilations, True, more, group)
        result = torch.convolution(x, weight, None, windows.strides, none, windows.dilations, True, none, group)
        after = tuple(extra - pad for extra, pad in zip(more, end, strict=True))
        result = padded(result, tuple(-pad for pad in begin), after)
        return result if bias is None else result + bias.reshape(-1, *(1 for _ in none))

    return convolve


def _gemm(node: OperatorNode) -> Kernel:
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    turned_a, turned_b = node.attribute("transA", 0), node.attribute("transB", 0)

    def gemm(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        a, b = a.T if turned_a else a, b.T if turned_b else b
        if c is not None:
            return torch.addmm(c, a, b, beta=beta, alpha=alpha)
        return torch.mm(a, b) if alpha == 1 else alpha * torch.mm(a, b)

    return gemm


PRODUCTS: Final[Mapping[str, Builder]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": lambda node: partial(torch.einsum, node.attributes["equation"]),
    "Gemm": _gemm,
    "MatMul": always(torch.matmul),
}
