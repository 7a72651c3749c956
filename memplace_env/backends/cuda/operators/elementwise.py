"""Operators that compute each element of the result from one of each input, quantisation included."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, reduce
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode, always, torch_dtype

_PLAIN: Final[Mapping[str, Kernel]] = {
    "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "Add": torch.add, "And": torch.logical_and,
    "Asin": torch.asin, "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh, "Ceil": torch.ceil,
    "Cos": torch.cos, "Cosh": torch.cosh, "Equal": torch.eq, "Erf": torch.erf, "Exp": torch.exp, "Floor": torch.floor,
    "Greater": torch.gt, "GreaterOrEqual": torch.ge, "HardSwish": functional.hardswish, "IsNaN": torch.isnan,
    "Less": torch.lt, "LessOrEqual": torch.le, "Log": torch.log, "Mish": functional.mish, "Mul": torch.mul,
    "Neg": torch.neg, "Not": torch.logical_not, "Or": torch.logical_or, "Reciprocal": torch.reciprocal,
    "Relu": torch.relu, "Round": torch.round, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin,
    "Sinh": torch.sinh, "Softplus": functional.softplus, "Softsign": functional.softsign, "Sqrt": torch.sqrt,
    "Sub": torch.sub, "Tan": torch.tan, "Tanh": torch.tanh, "Where": torch.where, "Xor": torch.logical_xor,
}  # fmt: skip


def _div(node: OperatorNode) -> Kernel:
    def div(a: Tensor, b: Tensor) -> Tensor:
        return torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc")

    return div


def _mod(node: OperatorNode) -> Kernel:
    return torch.fmod if node.attribute("fmod", 0) else torch.remainder


def _pow(node: OperatorNode) -> Kernel:
    exponent = node.constants.get(1)
    if exponent is not None and exponent.numel() == 1 and exponent.ndim <= len(node.shape(0)):
        number = exponent.item()  # a number in the host: squares and roots have kernels of their own
        return lambda x, _: torch.pow(x, number).to(x.dtype)
    return lambda x, y: torch.pow(x, y).to(x.dtype)


def _clip(node: OperatorNode) -> Kernel:
    low, high = _bound(node, 1, "min"), _bound(node, 2, "max")

    def clip(x: Tensor, least: Tensor | None = None, most: Tensor | None = None) -> Tensor:
        x = x if least is None or low is not None else torch.clamp_min(x, least)
        x = x if low is None and high is None else torch.clamp(x, low, high)
        return x if most is None or high is not None else torch.clamp_max(x, most)

    return clip


def _bound(node: OperatorNode, at: int, attribute: str) -> float | int | None:
    """Return a limit if it is known before the network runs, else None."""
    bound: float | None = node.constants[at].item() if at in node.constants else node.attribute(attribute, None)
    return bound


def _hard_sigmoid(node: OperatorNode) -> Kernel:
    alpha, beta = node.attribute("alpha", 0.2), node.attribute("beta", 0.5)
    if abs(6 * alpha - 1) < 1e-6 and beta == 0.5:
        return functional.hardsigmoid
    return lambda x: torch.clamp(alpha * x + beta, 0, 1)


def _cast(node: OperatorNode) -> Kernel:
    dtype = torch_dtype(node.attributes["to"])
    return lambda x: x.to(dtype)


def _selu(node: OperatorNode) -> Kernel:
    alpha, gamma = node.attribute("alpha", None), node.attribute("gamma", None)
    if alpha is None and gamma is None:
        return functional.selu
    alpha, gamma = 1.6732632 if alpha is None else alpha, 1.0507010 if gamma is None else gamma
    return lambda x: gamma * functional.elu(x, alpha)


def _several(kernel: Kernel) -> Builder:
    return always(lambda *given: reduce(kernel, given))


ELEMENTWISE: Final[Mapping[str, Builder]] = {
    **{name: always(kernel) for name, kernel in _PLAIN.items()},
    "Cast": _cast,
    "CastLike": always(lambda x, like: x.to(like.dtype)),
    "Celu": lambda node: partial(functional.celu, alpha=node.attribute("alpha", 1.0)),
    "Clip": _clip,
    "Div": _div,
    "Elu": lambda node: partial(functional.elu, alpha=node.attribute("alpha", 1.0)),
    "Gelu": lambda node: partial(functional.gelu, approximate=node.attribute("approximate", "none")),
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": lambda node: partial(functional.leaky_relu, negative_slope=node.attribute("alpha", 0.01)),
    "Max": _several(torch.maximum),
    "Mean": always(lambda *given: reduce(torch.add, given) / len(given)),
    "Min": _several(torch.minimum),
    "Mod": _mod,
    "Pow": _pow,
    "PRelu": always(lambda x, slope: torch.where(x < 0, x * slope, x)),
    "Selu": _selu,
    "Sum": _several(torch.add),
}


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
