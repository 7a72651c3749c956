"""Normalisations and softmax."""

from __future__ import annotations

from collections.abc import Mapping
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
