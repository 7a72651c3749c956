"""Reductions: operators that compute one number of many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import Tensor

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode

Reduction = Callable[[Tensor, tuple[int, ...], bool], Tensor]


def _product(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _reduction(reduced: Reduction) -> Builder:
    def build(node: OperatorNode) -> Kernel:
        rank, keep = len(node.shape(0)), bool(node.attribute("keepdims", 1))
        axes = tuple(axis % rank for axis in node.integers(1, "axes") or ())
        if not axes and (rank == 0 or node.attribute("noop_with_empty_axes", 0)):
            return lambda x, *_: reduced(x.unsqueeze(-1), (rank,), False)
        axes = axes or tuple(range(rank))
        return lambda x, *_: reduced(x, axes, keep)

    return build


def _arg(kernel: Callable[..., Tensor]) -> Builder:
    def build(node: OperatorNode) -> Kernel:
        axis, keep = node.axis(0, len(node.shape(0))), bool(node.attribute("keepdims", 1))
        if not node.attribute("select_last_index", 0):
            return lambda x: kernel(x, axis, keepdim=keep)
        last = node.shape(0)[axis] - 1
        return lambda x: last - kernel(x.flip(axis), axis, keepdim=keep)

    return build


def _cumulative_sum(node: OperatorNode) -> Kernel:
    (axis,) = node.integers(1) or (0,)
    exclusive, reverse = node.attribute("exclusive", 0), node.attribute("reverse", 0)

    def sums(x: Tensor, _: Tensor) -> Tensor:
        x = x.flip(axis) if reverse else x
        if exclusive:  # not the sum minus the number itself, which is NaN for infinities
            x = torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), x.narrow(axis, 0, x.shape[axis] - 1)], axis)
        result = torch.cumsum(x, axis, dtype=x.dtype)
        return result.flip(axis) if reverse else result

    return sums


REDUCTIONS: Final[Mapping[str, Builder]] = {
    "ArgMax": _arg(torch.argmax),
    "ArgMin": _arg(torch.argmin),
    "CumSum": _cumulative_sum,
    "ReduceL1": _reduction(lambda x, axes, keep: torch.sum(x.abs(), axes, keep, dtype=x.dtype)),
    "ReduceL2": _reduction(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "ReduceLogSum": _reduction(lambda x, axes, keep: torch.sum(x, axes, keep).log()),
    "ReduceLogSumExp": _reduction(torch.logsumexp),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMin": _reduction(torch.amin),
    "ReduceProd": _reduction(_product),
    "ReduceSum": _reduction(lambda x, axes, keep: torch.sum(x, axes, keep, dtype=x.dtype)),
    "ReduceSumSquare": _reduction(lambda x, axes, keep: torch.sum(x * x, axes, keep, dtype=x.dtype)),
}
