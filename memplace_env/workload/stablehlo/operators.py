"""All that the loader knows of StableHLO's operations, one row for each, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.operator import BehindConv, Operator
from memplace_env.workload.lowered.rules.products import NO_GEMM, Gemm
from memplace_env.workload.lowered.values import Value
from memplace_env.workload.onnx.operator_table import OPERATORS
from memplace_env.workload.stablehlo import windows
from memplace_env.workload.stablehlo.tracer import Node

Values = Mapping[str, Value]

_ELEMENTWISE: Final[Mapping[str, str]] = {
    "abs": "Abs",
    "add": "Add",
    "and": "And",
    "atan2": "Atan",
    "cbrt": "Pow",
    "ceil": "Ceil",
    "clamp": "Clip",
    "compare": "Equal",
    "convert": "Cast",
    "cosine": "Cos",
    "divide": "Div",
    "erf": "Erf",
    "exponential": "Exp",
    "exponential_minus_one": "Exp",
    "floor": "Floor",
    "is_finite": "IsInf",
    "log": "Log",
    "log_plus_one": "Log",
    "logistic": "Sigmoid",
    "multiply": "Mul",
    "negate": "Neg",
    "not": "Not",
    "or": "Or",
    "power": "Pow",
    "remainder": "Mod",
    "round_nearest_afz": "Round",
    "round_nearest_even": "Round",
    "select": "Where",
    "shift_left": "BitShift",
    "shift_right_arithmetic": "BitShift",
    "shift_right_logical": "BitShift",
    "sign": "Sign",
    "sine": "Sin",
    "sqrt": "Sqrt",
    "square": "Mul",
    "subtract": "Sub",
    "tan": "Tan",
    "tanh": "Tanh",
    "xor": "Xor",
}
"""By ONNX's name of the same."""

_BOUNDS: Final = {"maximum": "Max", "minimum": "Min"}
"""Element-wise too; with a constant they are activations."""

_OWN_ELEMENTWISE: Final[Mapping[str, str]] = {
    "bitcast_convert": "BitCast",
    "complex": "Complex",
    "count_leading_zeros": "CountLeadingZeros",
    "imag": "Imag",
    "map": "Map",
    "popcnt": "PopulationCount",
    "real": "Real",
    "reduce_precision": "ReducePrecision",
    "rsqrt": "Rsqrt",
    "stochastic_convert": "Cast",
} | {name: name.title().replace("_", "") for name in (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cosh", "digamma", "erf_inv", "erfc", "lgamma",
    "next_after", "polygamma", "sinh", "zeta",
)}  # fmt: skip

_MOVES: Final[Mapping[str, str]] = {
    "broadcast_in_dim": "Expand",
    "concatenate": "Concat",
    "dynamic_slice": "Slice",
    "dynamic_update_slice": "TensorScatter",
    "gather": "Gather",
    "pad": "Pad",
    "slice": "Slice",
}
"""Operations that only move elements."""

VIEWS: Final = frozenset({"reshape", "transpose", "reverse", "copy"})
"""Operations whose result is another look at the operand: the compiler chooses layouts and directions of reading."""

MIRRORS: Final = frozenset({"transpose", "reverse"})
"""Those of them whose elements lie elsewhere."""

_REDUCTIONS: Final[Mapping[str, str]] = {
    "add": "ReduceSum",
    "maximum": "ReduceMax",
    "minimum": "ReduceMin",
    "multiply": "ReduceProd",
}


def _sort(node: Node, values: Values) -> int:
    """n log n comparisons."""
    elements = values[node.inputs[0]].elements
    return elements * max(1, math.ceil(math.log2(max(2, elements))))


def _window(node: Node, values: Values) -> int:
    """The window's area per result element."""
    return (
        math.prod(map(int, node.attributes["window_dimensions"]))
        * values[node.outputs[0]].elements
        * max(1, len(node.body))
    )


def _scattered_windows(node: Node, values: Values) -> int:
    """Each source element looks for its place in a window and is added there."""
    return (math.prod(map(int, node.attributes["window_dimensions"])) + 1) * values[node.inputs[1]].elements


def _reduce(node: Node, values: Values) -> int:
    """The body for each operand element."""
    return max(1, len(node.body)) * values[node.inputs[0]].elements


def _scatter(node: Node, values: Values) -> int:
    """The body for each updated element."""
    return len(node.body) * values[node.inputs[-1]].elements


def _per_result(operations: int) -> Callable[[Node, Values], int]:
    return lambda node, values: operations * values[node.outputs[0]].elements


def _triangular(node: Node, values: Values) -> int:
    """A row of the matrix for each element of the result."""
    return values[node.inputs[0]].shape[-1] * values[node.outputs[0]].elements


_VECTOR_WORK: Final[Mapping[str, Callable[[Node, Values], int]]] = {
    "erf": _per_result(4),
    "erfc": _per_result(4),
    "batch_norm_grad": _per_result(8),
    "batch_norm_inference": _per_result(2),
    "batch_norm_training": _per_result(8),
    "cholesky": _triangular,
    "fft": lambda node, values: 5 * _sort(node, values),
    "reduce": _reduce,
    "reduce_window": _window,
    "rng": _per_result(10),
    "rng_bit_generator": lambda node, values: 10 * values[node.outputs[-1]].elements,
    "scatter": _scatter,
    "select_and_scatter": _scattered_windows,
    "sort": _sort,
    "top_k": _sort,
    "triangular_solve": _triangular,
}
_OTHERS: Final = {
    "batch_norm_grad": "BatchNormalizationGrad",
    "batch_norm_inference": "BatchNormalization",
    "batch_norm_training": "BatchNormalization",
    "cholesky": "Cholesky",
    "fft": "DFT",
    "rng": "RandomUniform",
    "rng_bit_generator": "RandomUniform",
    "scatter": "ScatterND",
    "select_and_scatter": "MaxPoolGrad",
    "sort": "Sort",
    "top_k": "TopK",
    "triangular_solve": "TriangularSolve",
}

_ROWS: Final[Mapping[str, Operator]] = {
    "convolution": OPERATORS["Conv"],
    "dot_general": OPERATORS["MatMul"],
    **{name: replace(OPERATORS[onnx], view=None, elementwise=True) for name, onnx in _ELEMENTWISE.items()},
    **{
        name: replace(OPERATORS[onnx], behind_conv=BehindConv.ACTIVATION, elementwise=True)
        for name, onnx in _BOUNDS.items()
    },
    **{name: Operator(own, elementwise=True) for name, own in _OWN_ELEMENTWISE.items()},
    **{name: Operator(own) for name, own in (*_MOVES.items(), *_OTHERS.items())},
}


def operator(node: Node) -> Operator:
    """What is known of a node's operation.

    Raises:
        WorkloadError: nothing.
    """
    if node.name in ("reduce", "reduce_window"):
        name = _REDUCTIONS.get(node.body[0], "Reduce") if len(node.body) == 1 else "Reduce"
        if node.name == "reduce_window":
            name = {"ReduceSum": "AveragePool", "ReduceMax": "MaxPool"}.get(name, "Pool")
        return Operator(name, channels_first=False)
    if node.name not in _ROWS:
        target = node.attributes.get("call_target_name")
        what = f"custom_call to {target!r}" if target else repr(node.name)
        raise WorkloadError(
            f"No cost is known for the operation {what}; export a function for one device that does without it."
        )
    return _ROWS[node.name]


def is_elementwise(node: Node) -> bool:
    """Whether each element of the result depends on those of the operands at the same place alone."""
    return node.name in _ROWS and _ROWS[node.name].elementwise


def is_move(node: Node) -> bool:
    """Whether it only moves elements to where they are read, one for each element of its result."""
    return node.name in _MOVES and node.name != "gather"


def gemm(node: Node, values: Values) -> Gemm:
    """The node's matrix products, zeros if it has none."""
    if node.name == "convolution":
        data, kernel, result = (values[name].shape for name in (*node.inputs[:2], node.outputs[0]))
        return windows.convolution(data, kernel, result, node.attributes)
    if node.name != "dot_general":
        return NO_GEMM
    dims = node.attributes["dot_dimension_numbers"]
    left, right = (values[name].shape for name in node.inputs)
    batch = math.prod(left[axis] for axis in dims["lhs_batching_dimensions"])
    depth = math.prod(left[axis] for axis in dims["lhs_contracting_dimensions"])
    kept = [
        math.prod(
            size
            for axis, size in enumerate(shape)
            if axis not in (*dims[f"{side}_batching_dimensions"], *dims[f"{side}_contracting_dimensions"])
        )
        for side, shape in (("lhs", left), ("rhs", right))
    ]
    return batch, kept[0], depth, kept[1]


def vector_ops(node: Node, values: Values) -> int:
    """The node's element operations: one for each element of the result unless `_VECTOR_WORK` says otherwise."""
    if node.name in _VECTOR_WORK:
        return _VECTOR_WORK[node.name](node, values)
    row = _ROWS.get(node.name)
    return values[node.outputs[0]].elements if row is not None and row.elementwise else 0


def work(node: Node, values: Values) -> int:
    """What the node does, in multiply-accumulates and element operations together, for comparing branches."""
    return math.prod(gemm(node, values)) + vector_ops(node, values)
