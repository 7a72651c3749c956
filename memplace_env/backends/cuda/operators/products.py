"""Operators that add up products: convolutions, matrix products and recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


_DIRECTIONS: Final = {"forward": 1, "reverse": 1, "bidirectional": 2}
_GATES: Final[Mapping[str, tuple[int, ...]]] = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}
"""Index in ONNX's order of each gate in PyTorch's order."""
_PLAIN: Final = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"]}
"""Activations of PyTorch's layers, for each direction."""


def _recurrent(node: OperatorNode) -> Kernel:
    _check(node)
    way = node.attribute("direction", "forward")
    directions, long = _DIRECTIONS[way], node.op_type == "LSTM"
    hidden = node.shape(2)[2]

    def run(
        x: Tensor, w: Tensor, r: Tensor, b: Tensor | None = None, lengths: Tensor | None = None,
        h: Tensor | None = None, c: Tensor | None = None, peepholes: Tensor | None = None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        x = x.flip(0) if way == "reverse" else x
        none = x.new_zeros(directions, x.shape[1], hidden)
        state = [none if initial is None else initial.contiguous() for initial in (h, c)]  # cuDNN requires it
        parts = _weights(node.op_type, w, r, b)
        settings = (b is not None, 1, 0.0, False, directions == 2, False)
        if long:
            result, *ends = torch.lstm(x, state, parts, *settings)
        else:
            result, *ends = torch.gru(x, state[0], parts, *settings)
        result = result.reshape(*result.shape[:2], directions, hidden)
        result = result.flip(0) if way == "reverse" else result
        return result.transpose(1, 2), *ends

    return run


def _check(node: OperatorNode) -> None:
    """Refuse settings that PyTorch's layers lack."""
    directions = _DIRECTIONS[node.attribute("direction", "forward")]
    if node.attribute("activations", _PLAIN[node.op_type] * directions) != _PLAIN[node.op_type] * directions:
        raise node.error("PyTorch has only the usual activations")
    if node.attribute("clip", 0) or node.attribute("input_forget", 0):
        raise node.error("PyTorch's layer has neither clip nor input_forget")
    if node.op_type == "GRU" and not node.attribute("linear_before_reset", 0):
        raise node.error("PyTorch's layer has linear_before_reset = 1 only")
    if node.has(7):
        raise node.error("PyTorch's layer has no peepholes")
    if node.attribute("layout", 0):
        raise node.error("layout = 1 is not supported")
    if node.has(4) and any(length != node.shape(0)[0] for length in node.integers(4) or ()):
        raise node.error("sequences of several lengths are not supported")


def _weights(kind: str, w: Tensor, r: Tensor, b: Tensor | None) -> list[Tensor]:
    """Return by direction both matrices and both biases, with PyTorch's order of gates.

    They are views of one tensor, all matrices before all biases, as cuDNN requires; else it would copy them again.
    """
    gates = _GATES[kind]
    halves = () if b is None else b.chunk(2, dim=1)
    matrices = [_ordered(parts[at], gates) for at in range(len(w)) for parts in (w, r)]
    biases = [_ordered(parts[at], gates) for at in range(len(w)) for parts in halves]
    pieces = [piece for parts in (*matrices, *biases) for piece in parts]
    whole, begin = torch.cat([piece.flatten() for piece in pieces]), 0
    views = []
    for parts in (*matrices, *biases):
        shape = (len(gates) * parts[0].shape[0], *parts[0].shape[1:])
        size = sum(piece.numel() for piece in parts)
        views.append(whole[begin : begin + size].reshape(shape))
        begin += size
    matrices_of, biases_of = views[: len(matrices)], views[len(matrices) :]
    each_has = [(matrices_of[2 * at : 2 * at + 2], biases_of[2 * at : 2 * at + 2]) for at in range(len(w))]
    return [view for both in each_has for part in both for view in part]


def _ordered(of: Tensor, gates: Sequence[int]) -> list[Tensor]:
    chunks = of.chunk(len(gates))
    return [chunks[gate] for gate in gates]


RECURRENT: Final[Mapping[str, Builder]] = {"GRU": _recurrent, "LSTM": _recurrent}
