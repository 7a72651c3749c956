"""Spans of strides along which tensors may be cut, and the rows and halos that loaded programs get from them."""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import groupby, product
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.program.lowering.independence import (
    ANYWHERE,
    WHOLE,
    Independent,
    NamedView,
    WindowAxis,
    best_span,
    independent,
    meet,
    row_major,
    rows_of,
)
from memplace_env.program.slicing import sliced
from tests.offenders import every
from tests.program.models import load, node, tensor
from tests.program.parts import Array, rows, torn, windows

NAMED = st.sampled_from([None, "a", "b", WindowAxis("w", 0), WindowAxis("w", 2)])
TENSORS = st.lists(st.tuples(st.sampled_from([1, 2, 3, 6]), NAMED), min_size=1, max_size=5)


def view(tensor: list[tuple[int, Hashable]]) -> NamedView:
    """A row-major tensor by the sizes and names of its axes."""
    shape, names = zip(*tensor, strict=True)
    return NamedView(shape, row_major(shape), names)


@given(TENSORS)
def test_spans_are_runs_of_named_axes(tensor: list[tuple[int, Hashable]]) -> None:
    shape, names = zip(*tensor, strict=True)
    where = independent([view(tensor)])
    axes = [(size, math.prod(shape[axis + 1 :]), names[axis]) for axis, size in enumerate(shape) if size > 1]
    halos = {(low, low * size): name.halo for size, low, name in axes if isinstance(name, WindowAxis) and name.halo}
    runs = groupby(reversed(axes), lambda axis: axis[2] is not None and (axis[1], axis[1] * axis[0]) not in halos)
    parts = [list(run) for free, run in runs if free]
    assert where.halos == halos | {(run[0][1], run[-1][1] * run[-1][0]): 0 for run in parts}
    assert independent([NamedView(shape, row_major(shape), names[1:])]) == WHOLE
    assert independent([NamedView(shape, None, names)]) == WHOLE


@st.composite
def tensors(draw: st.DrawFn) -> list[list[tuple[int, Hashable]]]:
    """Draw shapes of 12 elements, with names of their axes."""
    shapes = draw(st.lists(st.permutations([2, 2, 3]), min_size=1, max_size=3))
    return [[(size, draw(NAMED)) for size in shape] for shape in shapes]


@given(tensors())
def test_what_all_allow(tensors: list[list[tuple[int, Hashable]]]) -> None:
    """Tensors of several ops: whatever may be cut may be cut for each of them, with the most rows read twice."""
    each = [independent([view(tensor)]) for tensor in tensors]
    both = meet(each)
    for span in both.halos:
        halos = [where.halo(span) for where in each]
        assert None not in halos
        assert both.halo(span) == max(halos)
    span = best_span(12, both)
    if span is not None:
        blocks, rows = rows_of(12, span)
        assert both.halo(span) is not None
        assert rows > 1
        assert blocks * rows * span[0] == 12
    else:
        assert all(low == high for low, high in both.halos)


SIZES = {"a": 2, "b": 2, "c": 3, "d": 6}


@st.composite
def named_views(draw: st.DrawFn) -> list[NamedView]:
    """Draw views of a buffer of 12 elements, with their axes in some order; axes of one name are of one size."""
    shapes = draw(st.lists(st.permutations(draw(st.sampled_from([[2, 2, 3], [2, 6]]))), min_size=1, max_size=2))
    drawn = []
    for shape in shapes:
        order = draw(st.permutations(range(len(shape))))
        strides = row_major(tuple(shape))
        names = []
        for axis in order:
            fitting = [name for name, size in SIZES.items() if size == shape[axis]]
            windows = [WindowAxis("w", 0, 2)] * (shape[axis] == 6)
            names.append(draw(st.sampled_from([None, *fitting, *windows])))
        drawn.append(NamedView(tuple(shape[axis] for axis in order), tuple(strides[axis] for axis in order), names))
    return drawn


@given(named_views())
def test_each_result_needs_one_part(views: list[NamedView]) -> None:
    """A result has a coordinate for each name; it needs the elements that have these coordinates, in each view."""
    extent = {**SIZES, "w": 3}
    for low, high in independent(views).halos:
        for point in product(*map(range, extent.values())):
            result = dict(zip(extent, point, strict=True))
            needed = {
                sum(i * stride for i, stride in zip(index, view.strides or (), strict=True)) % high // low
                for view in views
                for index in np.ndindex(view.shape)
                if all(coordinate(i, name, result) for i, name in zip(index, view.axes, strict=True))
            }
            assert len(needed) <= 1


def coordinate(index: int, name: Hashable, result: dict[str, int]) -> bool:
    """Tell if a result of these coordinates needs an element of that index along an axis."""
    if isinstance(name, WindowAxis):
        return index // name.unit == result[str(name.axis)]
    return name is None or index == result[str(name)]


def test_spans_that_do_not_divide_each_other() -> None:
    """Rows of 4 and rows of 6 elements are whole in rows of 12."""
    assert meet([Independent({(4, 24): 0}), Independent({(6, 24): 0})]).halos == {(12, 24): 0}
    assert meet([Independent({(1, 8): 0}), Independent({(1, 12): 0})]).halos == {(1, 4): 0}
    lines = meet([Independent({(10, 80): 3}), Independent({(20, 160): 0})])
    assert lines.halos == {(20, 80): 2}, "three lines are in two pairs of lines"
    assert Independent({(1, 8): 3}).halo((1, 4)) is None


def test_what_is_only_moved_may_be_used_twice() -> None:
    views = [NamedView((3, 4), (4, 1), [ANYWHERE] * 2), NamedView((12,), (1,), [ANYWHERE])]
    assert independent(views).halos == {(1, 12): 0}


def test_few_rows_are_better_only_without_halo() -> None:
    rows, columns = (4, 400), (1, 4)
    assert best_span(400, Independent({columns: 0, rows: 2})) == rows, "4 rows are too few"
    assert best_span(400, Independent({(1, 16): 0, (16, 400): 2})) == (1, 16)
    assert best_span(2**40, Independent({(1, 2**40): 0})) is None
    assert best_span(2**40, Independent({(2**30, 2**40): 0})) == (2**30, 2**40)


def test_rows_of_convolutions() -> None:
    nodes = [
        node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
        node("Relu", "a", "b"),
        node("Conv", "b v", "y", pads=[1, 1, 1, 1], strides=[2, 2]),
    ]
    program = load(nodes, {"x": [1, 3, 16, 16]}, constants={"w": (8, 3, 3, 3), "v": (4, 8, 3, 3)})
    assert rows(program, "a") == (1, 8 * 16 * 16), "written and read element by element"
    assert rows(program, "b") == (8, 16), "lines of the image"
    assert rows(program, "w")[1] == 8
    assert rows(program, "v")[1] == 4
    uses = program.use_tensor == tensor(program, "b")
    assert program.use_halo[uses].tolist() == [0, 1], "the writer has no halo"
    assert (program.use_halo[~uses & (program.use_tensor != tensor(program, "x"))] == 0).all()


def test_rows_of_attention() -> None:
    """Views do not matter; rows of scores stay whole, as their softmax needs them."""
    nodes = [
        node("MatMul", "q k", "scores"),
        node("Softmax", "scores", "shares", axis=-1),
        node("Reshape", "shares flat", "view"),
        node("MatMul", "view w", "y"),
    ]
    program = load(nodes, {"q": [2, 6, 4], "k": [2, 4, 5]}, constants={"flat": [12, 5], "w": (5, 300)})
    assert rows(program, "scores") == rows(program, "shares") == (1, 12)
    assert rows(program, "w") == (5, 300), "columns"
    cut = sliced(program, int(program.tensor_bytes[tensor(program, "scores")]) // 2)
    assert sum(name.startswith("scores[") for name in cut.tensor_name) == 2


@every(("opset", "due"), [(13, 12), (11, 2)])
def test_the_axis_of_a_softmax_without_the_attribute(opset: int, due: int) -> None:
    program = load([node("Softmax", "x", "a"), node("Softmax", "a", "y")], {"x": [2, 6, 4]}, opset=opset)
    assert rows(program, "a") == (1, due)


def test_what_one_op_needs_whole_stays_whole() -> None:
    nodes = [node("MatMul", "a a", "b"), node("ReduceSum", "b", "y", keepdims=0)]
    program = load([node("Relu", "x", "a"), *nodes], {"x": [8, 8]})
    assert rows(program, "a") == rows(program, "b") == (1, 1), "both operands of a product, and all summed up"


TWICE: dict[str, tuple[list[Any], list[int], dict[str, list[int]]]] = {
    "einsum": ([node("Einsum", "a a", "y", equation="ij,kj->ik")], [8, 4], {}),
    "square": ([node("MatMul", "a a", "y")], [8, 8], {}),
    "gram matrix": ([node("Reshape", "a r", "b"), node("MatMul", "a b", "y")], [8, 1], {"r": [1, 8]}),
    "outer product": ([node("Reshape", "a r", "b"), node("Mul", "a b", "y")], [8, 1], {"r": [1, 8]}),
    "transposed": ([node("Einsum", "a a", "y", equation="ij,ji->ij")], [8, 8], {}),
}


@every("name", TWICE)
def test_a_tensor_under_two_names_stays_whole(name: str) -> None:
    nodes, shape, constants = TWICE[name]
    program = load([node("Relu", "x", "a"), *nodes], {"x": shape}, constants=constants)
    assert rows(program, "a") == (1, 1)


def test_a_tensor_twice_under_one_name_is_cut() -> None:
    for nodes in ([node("Mul", "a a", "y")], [node("Concat", "a a", "y", axis=0)]):
        assert rows(load([node("Relu", "x", "a"), *nodes], {"x": [8, 4]}), "a") == (1, 32)
    nodes = [node("Relu", "x", "a"), node("MatMul", "a a", "y")]
    assert rows(load(nodes, {"x": [16, 3, 3]}), "a") == (1, 16), "the batch"


PRODUCT, TURNED = node("MatMul", "x w", "y"), node("Transpose", "w", "t", perm=[1, 0])
OF_TURNED = node("MatMul", "z t", "v")


def test_weights_as_they_lie() -> None:
    """A transposed weight is cut along the axis of the stored one."""
    x = np.random.default_rng(0).normal(size=(3, 8))

    def read(*nodes: Any, dims: tuple[int, int] = (8, 8), inputs: str = "x z") -> tuple[int, int]:
        shapes = {name: [3, 8] for name in inputs.split()}
        return rows(load(nodes, shapes, outputs="y v" if "z" in inputs else "y", constants={"w": dims}), "w")

    both = read(PRODUCT, TURNED, OF_TURNED)
    assert both == (1, 1), "one reader sums along each axis"
    of_turned = read(TURNED, node("MatMul", "x t", "y"), inputs="x")
    assert of_turned == (1, 8)
    assert torn(lambda w: x @ w.T, (8, 8), of_turned) == 0
    plain = read(PRODUCT, inputs="x")
    assert plain == (8, 8)
    assert torn(lambda w: x @ w, (8, 8), plain) == 0
    gemm = read(TURNED, OF_TURNED, node("Gemm", "x w", "y", transB=1))
    assert gemm == (1, 8), "both read columns that are rows in memory"


def test_transposed_weights_in_another_shape() -> None:
    nodes = [
        node("Transpose", "w", "t", perm=[2, 0, 1]),
        node("Reshape", "t r", "s"),
        node("MatMul", "x s", "y"),
    ]
    program = load(nodes, {"x": [3, 4]}, constants={"w": (2, 5, 4), "r": [4, 10]})
    x = np.random.default_rng(0).normal(size=(3, 4))
    assert rows(program, "w") == (1, 10)
    assert torn(lambda w: x @ w.transpose(2, 0, 1).reshape(4, 10), (2, 5, 4), rows(program, "w")) == 0
    mixed = [node("Transpose", "w", "t", perm=[1, 0, 2]), *nodes[1:]]
    program = load(mixed, {"x": [3, 4]}, constants={"w": (2, 5, 4), "r": [4, 10]})
    assert rows(program, "w") == (1, 1), "no strides"


WINDOWS: dict[str, tuple[list[int], dict[str, Any], tuple[int, int], int]] = {
    "they fill the image": ([1, 1, 6, 6], {"kernel_shape": [2, 2], "strides": [2, 2]}, (1, 3), 0),
    "over channels": ([1, 3, 4, 4], {"kernel_shape": [2, 2], "strides": [2, 2]}, (1, 6), 0),
    "with gaps": ([1, 1, 6, 6], {"kernel_shape": [2, 2], "strides": [3, 3]}, (1, 2), 0),
    "as if the padding were a window": (
        [1, 1, 6, 6], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [2, 2, 0, 0]}, (1, 3), 0,
    ),
    "every second element": ([1, 1, 6, 6], {"kernel_shape": [1, 1], "strides": [2, 2]}, (1, 36), 0),
    "an odd image": ([1, 1, 7, 7], {"kernel_shape": [2, 2], "strides": [2, 2]}, (1, 7), 1),
    "off by one": ([1, 1, 6, 6], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}, (1, 6), 1),
}  # fmt: skip


@every("name", WINDOWS)
def test_windows_that_share_nothing(name: str) -> None:
    shape, attributes, due, halo = WINDOWS[name]
    program = load([node("Relu", "x", "a"), node("MaxPool", "a", "y", **attributes)], {"x": shape})
    assert rows(program, "a") == due
    uses = (program.use_tensor == tensor(program, "a")) & ~program.use_is_result
    assert program.use_halo[uses].tolist() == [halo]


def test_windows_stay_whole() -> None:
    def pooled(image: Array) -> Array:
        return np.stack([windows(channel, 2) for channel in image[0]])

    for name in ("they fill the image", "over channels"):
        shape, _, due, _ = WINDOWS[name]
        assert torn(pooled, tuple(shape), due) == 0
