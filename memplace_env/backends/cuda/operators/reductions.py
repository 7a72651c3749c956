"""Reductions to one number of many, and the normalisations made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode


def _batch(node: OperatorNode) -> Kernel:
    if node.attribute("training_mode", 0) or node.outputs > 1:
        raise node.error("only inference is supported, not training")
    epsilon = node.attribute("epsilon", 1e-5)

    def normalise(x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return functional.batch_norm(x, mean, variance, scale, shift, False, 0.0, epsilon)

    return normalise


def _layer(node: OperatorNode) -> Kernel:
    axis, epsilon = node.axis(-1, len(node.shape(0))), node.attribute("epsilon", 1e-5)

    def normalise(x: Tensor, scale: Tensor, shift: Tensor | None = None) -> tuple[Tensor, ...]:
        shape = x.shape[axis:]
        shift = None if shift is None else shift.expand(shape)
        return torch.native_layer_norm(x, shape, scale.expand(shape), shift, epsilon)

    return normalise


def _instance(node: OperatorNode) -> Kernel:
    channels, epsilon = node.shape(0)[1], node.attribute("epsilon", 1e-5)
    return lambda x, scale, shift: torch.group_norm(x, channels, scale, shift, epsilon)


def _group(node: OperatorNode) -> Kernel:
    groups, epsilon = node.attributes["num_groups"], node.attribute("epsilon", 1e-5)
    repeats = node.shape(0)[1] // groups if node.opset < 21 else 1  # older versions have one number per group

    def normalise(x: Tensor, *factors: Tensor) -> Tensor:
        scale, shift = (factor.unsqueeze(1).expand(-1, repeats).flatten() for factor in factors)
        return torch.group_norm(x, groups, scale, shift, epsilon)

    return normalise


def _root_mean_square(node: OperatorNode) -> Kernel:
    axis, epsilon = node.axis(-1, len(node.shape(0))), node.attribute("epsilon", 1e-5)
    return lambda x, scale: functional.rms_norm(x, x.shape[axis:], scale.expand(x.shape[axis:]), epsilon)


def _over_axis(kernel: Kernel) -> Builder:
    """Return a builder of softmax or its logarithm; up to version 12 it is over all axes from one on."""

    def build(node: OperatorNode) -> Kernel:
        rank = len(node.shape(0))
        axis = node.axis(-1 if node.opset >= 13 else 1, rank)
        if node.opset >= 13 or axis == rank - 1:
            return partial(kernel, dim=axis)
        return lambda x: kernel(x.flatten(axis), dim=axis).reshape(x.shape)  # type: ignore[union-attr]

    return build


NORMALISATIONS: Final[Mapping[str, Builder]] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _instance,
    "LayerNormalization": _layer,
    "LogSoftmax": _over_axis(torch.log_softmax),
    "RMSNormalization": _root_mean_square,
    "Softmax": _over_axis(torch.softmax),
}


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
