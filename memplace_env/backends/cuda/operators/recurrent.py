"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import torch
from torch import Tensor

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode

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
