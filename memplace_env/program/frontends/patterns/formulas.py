"""Formulas that files write out, known by what they compute: their values at some points are compared with a table.

Neither the order of operands nor the form that the exporter chose matters. All is along the last axis of the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import permutations
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_OPERATORS
from memplace_env.program.lowering.graph_values import REMEMBERED
from memplace_env.program.lowering.node_graph import Operator

Array = NDArray[np.float64]


class FormulaStep(NamedTuple):
    """An operator of `FUNCTIONS`, its operands and further arguments.

    An operand is the number of an earlier step, -1 for the tensor, -2 and -3 for parameters, or a number as a float.
    """

    name: str
    operands: tuple[int | float, ...]
    numbers: tuple[float, ...] = ()


class Pattern(NamedTuple):
    """An operator, its function of the tensor and so many parameters, whether that needs rows, and its attributes."""

    operator: Operator
    function: Callable[..., Array]
    parameters: int = 0
    rows: bool = False
    attributes: Mapping[str, Any] = MappingProxyType({})


_ERF: Final = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.log1p(np.exp(x))


def _tanh_gelu(x: Array) -> Array:
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def _layer(x: Array, scale: Array | float = 1.0, bias: Array | float = 0.0) -> Array:
    return (x - x.mean()) / x.std() * scale + bias


def _root_mean_square(x: Array, scale: Array | float = 1.0) -> Array:
    return x / np.sqrt((x**2).mean()) * scale


def _turned(x: Array, cos: Array, sin: Array) -> Array:
    """Turn each element of the first half with that of the second; the parameters have each angle once or twice."""
    half = len(x) // 2
    return x * np.resize(cos, len(x)) + np.concatenate([-x[half:], x[:half]]) * np.resize(sin, len(x))


_TURN: Final = OPERATORS["RotaryEmbedding"]
_AXIS: Final = MappingProxyType({"axis": -1})

PATTERNS: Final = (
    Pattern(OPERATORS["Gelu"], lambda x: x * (1 + _ERF(x / math.sqrt(2))) / 2),
    Pattern(OPERATORS["Gelu"], _tanh_gelu, attributes={"approximate": b"tanh"}),
    Pattern(RUNTIME_OPERATORS["QuickGelu"], lambda x: x * _sigmoid(1.702 * x)),
    Pattern(OPERATORS["Swish"], lambda x: x * _sigmoid(x)),
    Pattern(OPERATORS["HardSwish"], lambda x: x * np.clip(x + 3, 0, 6) / 6),
    Pattern(OPERATORS["HardSigmoid"], lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    Pattern(OPERATORS["Sigmoid"], _sigmoid),
    Pattern(OPERATORS["Softplus"], _softplus),
    Pattern(OPERATORS["Mish"], lambda x: x * np.tanh(_softplus(x))),
    *(Pattern(OPERATORS["LayerNormalization"], _layer, count, True, _AXIS) for count in range(3)),
    *(Pattern(OPERATORS["RMSNormalization"], _root_mean_square, count, True, _AXIS) for count in range(2)),
    Pattern(OPERATORS["Softmax"], lambda x: np.exp(x) / np.exp(x).sum(), 0, True, _AXIS),
    Pattern(_TURN, _turned, 2, True),
)
"""Functions that are one op. docs/model.md says which compilers know them."""


def _taken(x: Array, first: float, beyond: float) -> Array:
    return x[int(first) : int(beyond)]


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "Abs": np.abs, "Add": np.add, "Cast": np.asarray, "Clip": np.clip, "Concat": lambda *parts: np.concatenate(parts),
    "Div": np.divide, "Erf": _ERF, "Exp": np.exp, "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "Identity": np.asarray, "Log": np.log, "Max": np.maximum, "Min": np.minimum, "Mul": np.multiply,
    "Neg": np.negative, "Pow": np.power, "Reciprocal": np.reciprocal, "ReduceMax": lambda x: x.max(keepdims=True),
    "ReduceMean": lambda x: x.mean(keepdims=True), "ReduceSum": lambda x: x.sum(keepdims=True),
    "Relu": lambda x: np.maximum(x, 0), "Rsqrt": lambda x: 1 / np.sqrt(x), "Sigmoid": _sigmoid, "Slice": _taken,
    "Softplus": _softplus, "Split": _taken, "Sqrt": np.sqrt, "Square": np.square,
    "SquaredDifference": lambda x, y: (x - y) ** 2, "Sub": np.subtract, "Tanh": np.tanh,
}  # fmt: skip
"""Operators of which formulas are made."""

CUTS: Final = frozenset({"Slice", "Split"})
REDUCTIONS: Final = frozenset({"ReduceMax", "ReduceMean", "ReduceSum"})

_POINTS: Final = 41
"""Points for element-wise formulas."""
_FEWEST, _MOST = 4, 2**16
"""Elements of rows that are tried (our choice): shorter ones are all alike once they are normalised."""
_EXACT, _ROUGH = 2e-5, 3e-4
"""Largest errors as shares of the largest result, where numbers have 5 digits or 16 bits (our choice); epsilons of
normalisations make less."""


@lru_cache(REMEMBERED)
def known(
    steps: tuple[FormulaStep, ...], sizes: tuple[int, ...], weights: bool, rough: bool
) -> tuple[Pattern, tuple[int, ...]] | None:
    """Return what a formula is, and its parameters' numbers in the order of the pattern's; None if it is not known.

    Args:
        steps: the last gives the result.
        sizes: elements along the last axis of the tensor and of each parameter.
        weights: whether the parameters are constants of one row.
        rough: whether numbers have 16 bits.
    """
    rows = any(step.name in CUTS | REDUCTIONS for step in steps)
    size, *others = sizes if rows else (_POINTS,)
    if rows and not _FEWEST <= size <= _MOST:
        return None
    draw = np.random.default_rng(0)
    # Rows vary so much that an epsilon does not count.
    tensor = draw.normal(1, 10, size) if rows else np.linspace(-6, 6, _POINTS)
    parameters = [draw.normal(0, 1, other) for other in others]
    least, nearest = _ROUGH if rough else _EXACT, None
    with np.errstate(all="ignore"):
        found = _computed(steps, [tensor, *parameters])
        for pattern in PATTERNS:
            fits = pattern.rows == rows and pattern.parameters == len(others) and found.shape == tensor.shape
            if not fits or (size % 2 if pattern.operator is _TURN else not weights):
                continue
            for order in permutations(range(len(others))):
                wanted = pattern.function(tensor, *(parameters[number] for number in order))
                error = np.max(np.abs(found - wanted)) / np.max(np.abs(wanted))
                if error < least:
                    least, nearest = error, (pattern, order)
    return nearest


def _computed(steps: tuple[FormulaStep, ...], given: list[Array]) -> Array:
    """Return the result of a formula of a tensor and parameters, nothing if their sizes do not fit together."""
    results: list[Array] = []
    for name, operands, numbers in steps:
        values = [x if isinstance(x, float) else results[x] if x >= 0 else given[-1 - x] for x in operands]
        try:
            results.append(np.asarray(FUNCTIONS[name](*values, *numbers), np.float64))
        except ValueError:
            return np.empty(0)
    return results[-1]
