"""Axes of TFLite's operators: no result needs both sides of a cut; functions are NumPy's, on tensors as they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.offenders import every
from tests.program.parts import Array, rows, torn, windows
from tests.program.tflite.writer import Op, T, load, op

Sizes = tuple[int, ...]

Z = np.random.default_rng(0).integers(-3, 4, (4, 6)).astype(float)
"""The other operand of products."""


class Case(NamedTuple):
    """An operator, shapes of its tensors but `a`, which has `shape`, what it computes of `a`, and the rows of `a`."""

    call: Op
    tensors: dict[str, T]
    shape: Sizes
    function: Callable[[Array], Array]
    rows: tuple[int, int]


def unary(op_type: str, function: Callable[[Array], Array], due: tuple[int, int], *shape: int) -> Case:
    return Case(op(op_type, "a", "y"), {"y": T(shape)}, shape, function, due)


def binary(op_type: str, function: Callable[[Array, Array], Array]) -> Case:
    """An element-wise operator of a tensor and another one."""
    tensors = {"z": T([4, 6]), "y": T([4, 6])}
    return Case(op(op_type, "a z", "y"), tensors, (4, 6), lambda a: function(a, Z), (1, 24))


def softmax(a: Array) -> Array:
    shares = np.exp(a - a.max(-1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def to_batch(a: Array) -> Array:
    """Tiles of 2 x 2 pixels of one image [height, width, channels], each pixel in an image of its own."""
    height, width, channels = a.shape[1:]
    tiles = a.reshape(height // 2, 2, width // 2, 2, channels)
    return tiles.transpose(1, 3, 0, 2, 4).reshape(4, height // 2, width // 2, channels)


def from_batch(a: Array) -> Array:
    _, height, width, channels = a.shape
    tiles = a.reshape(2, 2, height, width, channels)
    return tiles.transpose(2, 0, 3, 1, 4).reshape(1, 2 * height, 2 * width, channels)


PARAMETER = T([2], "INT32")
LAST = T([1], "INT32", [-1])
W = np.random.default_rng(1).integers(-3, 4, (5, 6)).astype(float)
CASES: dict[str, Case] = {
    "square": unary("SQUARE", np.square, (1, 24), 4, 6),
    "rsqrt": unary("RSQRT", lambda a: 1 / np.sqrt(np.abs(a) + 1), (1, 24), 4, 6),
    "squared difference": binary("SQUARED_DIFFERENCE", lambda a, z: (a - z) ** 2),
    "floor div": binary("FLOOR_DIV", lambda a, z: a // (z + 4)),
    "not equal": binary("NOT_EQUAL", np.not_equal),
    "reverse": Case(
        op("REVERSE_V2", "a r", "y"), {"r": LAST, "y": T([4, 6])}, (4, 6), lambda a: a[:, ::-1], (1, 24),
    ),
    "space to batch": Case(
        op("SPACE_TO_BATCH_ND", "a r r", "y"), {"r": PARAMETER, "y": T([4, 2, 3, 2])}, (1, 4, 6, 2), to_batch, (1, 48),
    ),
    "batch to space": Case(
        op("BATCH_TO_SPACE_ND", "a r r", "y"), {"r": PARAMETER, "y": T([1, 4, 6, 2])}, (4, 2, 3, 2), from_batch,
        (1, 48),
    ),
    "softmax": unary("SOFTMAX", softmax, (1, 24), 2, 3, 4, 5),
    "log softmax": unary("LOG_SOFTMAX", lambda a: np.log(softmax(a)), (1, 24), 2, 3, 4, 5),
    "arg max": Case(
        op("ARG_MAX", "a r", "y"), {"r": LAST, "y": T([4], "INT32")}, (4, 6), lambda a: a.argmax(-1), (1, 4),
    ),
    "arg min of unknown axis": Case(
        op("ARG_MIN", "a r", "y"), {"r": T([1], "INT32"), "y": T([4], "INT32")}, (4, 6), lambda a: a.argmin(-1), (1, 1),
    ),
    "mean": Case(
        op("MEAN", "a r", "y"), {"r": LAST, "y": T([4])}, (4, 6), lambda a: a.mean(-1), (1, 4),
    ),
    "fully connected": Case(
        op("FULLY_CONNECTED", "a w b", "y"), {"w": T([5, 6]), "b": T([5], "INT32"), "y": T([2, 4, 5])}, (2, 4, 6),
        lambda a: a @ W.T, (1, 8),
    ),
    "its weights": Case(
        op("FULLY_CONNECTED", "z a _", "y"), {"z": T([4, 6]), "y": T([4, 5])}, (5, 6), lambda a: Z @ a.T, (1, 5),
    ),
    "it squared": Case(op("FULLY_CONNECTED", "a a _", "y"), {"y": T([5, 5])}, (5, 6), lambda a: a @ a.T, (1, 1)),
    "left operand": Case(
        op("BATCH_MATMUL", "a z", "y"), {"z": T([1, 4, 6]), "y": T([1, 8, 6])}, (1, 8, 4), lambda a: a @ Z, (1, 8),
    ),
    "left operand turned": Case(
        op("BATCH_MATMUL", "a z", "y", AdjX=1), {"z": T([1, 4, 6]), "y": T([1, 8, 6])}, (1, 4, 8),
        lambda a: a.transpose(0, 2, 1) @ Z, (4, 8),
    ),
    "right operand": Case(
        op("BATCH_MATMUL", "z a", "y"), {"z": T([1, 4, 6]), "y": T([1, 4, 8])}, (1, 6, 8), lambda a: Z @ a, (6, 8),
    ),
    "right operand turned": Case(
        op("BATCH_MATMUL", "z a", "y", AdjY=1), {"z": T([1, 4, 6]), "y": T([1, 4, 8])}, (1, 8, 6),
        lambda a: Z @ a.transpose(0, 2, 1), (1, 8),
    ),
    "filters": Case(
        op("CONV_2D", "z a _", "y"), {"z": T([1, 1, 4, 6]), "y": T([1, 1, 4, 5])}, (5, 1, 1, 6),
        lambda a: Z @ a.reshape(5, 6).T, (1, 5),
    ),
    "filters of a channel each": Case(
        op("DEPTHWISE_CONV_2D", "z a _", "y"), {"z": T([1, 4, 1, 6]), "y": T([1, 1, 1, 6])}, (1, 4, 1, 6),
        lambda a: (Z * a.reshape(4, 6)).sum(0), (4, 6),
    ),
    "transposed filters": Case(
        op("TRANSPOSE_CONV", "r a z", "y"), {"r": T([4], "INT32"), "z": T([1, 1, 4, 6]), "y": T([1, 1, 4, 5])},
        (5, 1, 1, 6), lambda a: Z @ a.reshape(5, 6).T, (1, 5),
    ),
    "pooling": Case(
        op("MAX_POOL_2D", "a", "y", FilterHeight=2, FilterWidth=2, StrideH=2, StrideW=2), {"y": T([1, 2, 3, 1])},
        (1, 4, 6, 1), lambda a: windows(a[0, :, :, 0], 2), (4, 3),
    ),
}  # fmt: skip


@every("name", CASES)
def test_no_result_needs_both_sides_of_a_cut(name: str) -> None:
    call, tensors, shape, function, due = CASES[name]
    inputs = "x z" if "z" in tensors else "x"
    tensors = {"x": T(shape), "a": T(shape), **tensors}
    program = load([op("RELU", "x", "a"), call], tensors, inputs)
    assert rows(program, "a") == due
    assert torn(function, shape, due) == 0


@every("name", [name for name, case in CASES.items() if case.rows[1] > 1])
def test_results_are_cut_too(name: str) -> None:
    call, tensors, shape, _, _ = CASES[name]
    inputs = "a z" if "z" in tensors else "a"
    given = {"a": T(shape), **tensors, "out": tensors["y"]}
    program = load([call, op("RELU", "y", "out")], given, inputs, outputs="out")
    assert rows(program, "y")[1] > 1


def test_a_bias_is_cut_with_its_columns() -> None:
    tensors = {"x": T([2, 4, 6]), "w": T([5, 6]), "b": T([5], "INT32"), "y": T([2, 4, 5])}
    program = load([op("FULLY_CONNECTED", "x w b", "y")], tensors)
    assert rows(program, "b") == rows(program, "w") == (1, 5)


def test_one_weight_of_both_products() -> None:
    """A weight is stored once, so what is a row for one reader is a column for the other."""
    calls = [op("FULLY_CONNECTED", "x w _", "y"), op("BATCH_MATMUL", "y w", "v")]
    tensors = {"x": T([4, 6]), "w": T([6, 6]), "y": T([4, 6]), "v": T([4, 6])}
    assert rows(load(calls, tensors, outputs="v"), "w") == (1, 1)
    calls = [op("FULLY_CONNECTED", "x w _", "y"), op("BATCH_MATMUL", "y w", "v", AdjY=1)]
    assert rows(load(calls, tensors, outputs="v"), "w") == (1, 6)
