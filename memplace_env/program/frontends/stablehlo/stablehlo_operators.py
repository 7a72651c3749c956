"""The table of StableHLO's operations, and their cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.stablehlo import stablehlo_windows
from memplace_env.program.frontends.stablehlo.tracer import TraceNode
from memplace_env.program.lowering.graph_values import Shape, Value
from memplace_env.program.lowering.node_graph import BehindConv, Gemm, Operator
from memplace_env.program.lowering.rules.matrix_products import NO_GEMM

Values = Mapping[str, Value]
VectorWork = Callable[[TraceNode, Values], int]

_ELEMENTWISE: Final[Mapping[str, str]] = {
    "atan2": "Atan", "cbrt": "Pow", "clamp": "Clip", "compare": "Equal", "convert": "Cast", "cosine": "Cos",
    "divide": "Div", "exponential": "Exp", "exponential_minus_one": "Exp", "is_finite": "IsInf", "log_plus_one": "Log",
    "logistic": "Sigmoid", "multiply": "Mul", "negate": "Neg", "power": "Pow", "remainder": "Mod",
    "round_nearest_afz": "Round", "round_nearest_even": "Round", "select": "Where", "shift_left": "BitShift",
    "shift_right_arithmetic": "BitShift", "shift_right_logical": "BitShift", "sine": "Sin", "square": "Mul",
    "subtract": "Sub",
} | {name: name.title() for name in (
    "abs", "add", "and", "ceil", "erf", "floor", "log", "not", "or", "sign", "sqrt", "tan", "tanh", "xor",
)}  # fmt: skip
"""Element-wise operations and the ONNX operators that do the same."""

_BOUNDS: Final = {"maximum": "Max", "minimum": "Min"}
"""Element-wise operations that are activations with a constant, and their ONNX operators."""

_OWN_ELEMENTWISE: Final[Mapping[str, str]] = {
    "bitcast_convert": "BitCast", "complex": "Complex", "count_leading_zeros": "CountLeadingZeros", "imag": "Imag",
    "map": "Map", "popcnt": "PopulationCount", "real": "Real", "reduce_precision": "ReducePrecision", "rsqrt": "Rsqrt",
    "stochastic_convert": "Cast",
} | {name: name.title().replace("_", "") for name in (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cosh", "digamma", "erf_inv", "erfc", "lgamma",
    "next_after", "polygamma", "sinh", "zeta",
)}  # fmt: skip

_MOVES: Final[Mapping[str, str]] = {
    "broadcast_in_dim": "Expand",
    "concatenate": "Concat",
    "copy": "Identity",
    "dynamic_slice": "Slice",
    "dynamic_update_slice": "TensorScatter",
    "gather": "Gather",
    "pad": "Pad",
    "slice": "Slice",
}
"""Operations that only move elements."""

_DECISIONS: Final = {"case": "If", "if": "If", "while": "Loop"}
"""Operations that decide what runs."""

VIEWS: Final = frozenset({"reshape", "transpose", "reverse", "copy"})
"""Operations whose result is a view of the operand, as the compiler chooses layouts and directions of reading."""

MIRRORS: Final = frozenset({"transpose", "reverse"})
"""Views whose elements are in another order."""

_REDUCTIONS: Final[Mapping[str, str]] = {
    "add": "ReduceSum",
    "maximum": "ReduceMax",
    "minimum": "ReduceMin",
    "multiply": "ReduceProd",
}


def _sort(node: TraceNode, values: Values) -> int:
    """Count n log n comparisons."""
    elements = values[node.inputs[0]].elements
    return elements * max(1, math.ceil(math.log2(max(2, elements))))


def _window(node: TraceNode, values: Values) -> int:
    """Count the body for each element of the window of each result element."""
    area = math.prod(map(int, node.attributes["window_dimensions"]))
    return area * values[node.outputs[0]].elements * max(1, len(node.body))


def _scattered_windows(node: TraceNode, values: Values) -> int:
    """Count the search for the position of each source element in its window, and the addition there."""
    return (math.prod(map(int, node.attributes["window_dimensions"])) + 1) * values[node.inputs[1]].elements


def _reduce(node: TraceNode, values: Values) -> int:
    """Count the body for each operand element."""
    return max(1, len(node.body)) * values[node.inputs[0]].elements


def _scatter(node: TraceNode, values: Values) -> int:
    """Count the body for each updated element."""
    return len(node.body) * values[node.inputs[-1]].elements


def _per_result(operations: int) -> VectorWork:
    return lambda node, values: operations * values[node.outputs[0]].elements


def _triangular(node: TraceNode, values: Values) -> int:
    """Count a row of the matrix for each element of the result."""
    return values[node.inputs[0]].shape[-1] * values[node.outputs[0]].elements


_OTHERS: Final[Mapping[str, tuple[str, VectorWork]]] = {
    "batch_norm_grad": ("BatchNormalizationGrad", _per_result(8)),
    "batch_norm_inference": ("BatchNormalization", _per_result(2)),
    "batch_norm_training": ("BatchNormalization", _per_result(8)),
    "cholesky": ("Cholesky", _triangular),
    "fft": ("DFT", lambda node, values: 5 * _sort(node, values)),
    "rng": ("RandomUniform", _per_result(10)),
    "rng_bit_generator": ("RandomUniform", lambda node, values: 10 * values[node.outputs[-1]].elements),
    "scatter": ("ScatterND", _scatter),
    "select_and_scatter": ("MaxPoolGrad", _scattered_windows),
    "sort": ("Sort", _sort),
    "top_k": ("TopK", _sort),
    "triangular_solve": ("TriangularSolve", _triangular),
}
"""Other operations: type of their op and number of their element operations."""

_VECTOR_WORK: Final[Mapping[str, VectorWork]] = {
    "erf": _per_result(4),
    "erfc": _per_result(4),
    "reduce": _reduce,
    "reduce_window": _window,
    **{name: work for name, (_, work) in _OTHERS.items()},
}
"""Numbers of element operations other than one per result element for element-wise operations and none for others."""

_ROWS: Final[Mapping[str, Operator]] = {
    "convolution": OPERATORS["Conv"],
    "dot_general": OPERATORS["MatMul"],
    **{name: replace(OPERATORS[onnx], view=None, elementwise=True) for name, onnx in _ELEMENTWISE.items()},
    **{
        name: replace(OPERATORS[onnx], behind_conv=BehindConv.ACTIVATION, elementwise=True)
        for name, onnx in _BOUNDS.items()
    },
    **{name: Operator(own, elementwise=True) for name, own in _OWN_ELEMENTWISE.items()},
    **{name: Operator(own) for name, own in _MOVES.items()},
    **{name: Operator(own) for name, (own, _) in _OTHERS.items()},
    **{name: Operator(own) for name, own in _DECISIONS.items()},
}


def operator(node: TraceNode) -> Operator:
    """Return the row of a node's operation.

    Raises:
        WorkloadError: there is none.
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


def is_elementwise(node: TraceNode) -> bool:
    """Return whether each element of the result depends only on the operands' elements at the same index."""
    return node.name in _ROWS and _ROWS[node.name].elementwise


def is_move(node: TraceNode) -> bool:
    """Return whether a node only moves elements, one for each element of its result."""
    return node.name in _MOVES and node.name != "gather"


def gemm(node: TraceNode, values: Values) -> Gemm:
    """Return the node's matrix products, zeros if it has none."""
    if node.name == "convolution":
        data, kernel, result = (values[name].shape for name in (*node.inputs[:2], node.outputs[0]))
        return stablehlo_windows.convolution(data, kernel, result, node.attributes)
    if node.name != "dot_general":
        return NO_GEMM
    dims = node.attributes["dot_dimension_numbers"]
    left, right = (values[name].shape for name in node.inputs)
    batch = math.prod(left[axis] for axis in dims["lhs_batching_dimensions"])
    depth = math.prod(left[axis] for axis in dims["lhs_contracting_dimensions"])

    def free(side: str, shape: Shape) -> int:
        """Return the product of the dims that are neither of the batch nor summed over."""
        others = (*dims[f"{side}_batching_dimensions"], *dims[f"{side}_contracting_dimensions"])
        return math.prod(size for axis, size in enumerate(shape) if axis not in others)

    return batch, free("lhs", left), depth, free("rhs", right)


def vector_ops(node: TraceNode, values: Values) -> int:
    """Return the number of the node's element operations."""
    if node.name in _VECTOR_WORK:
        return _VECTOR_WORK[node.name](node, values)
    row = _ROWS.get(node.name)
    return values[node.outputs[0]].elements if row is not None and row.elementwise else 0


def work(node: TraceNode, values: Values) -> int:
    """Return the sum of a node's multiply-accumulates and element operations, to compare branches."""
    return math.prod(gemm(node, values)) + vector_ops(node, values)
