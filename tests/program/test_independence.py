"""Spans of strides along which tensors may be cut, and the rows and halos that loaded programs get from them."""

from __future__ import annotations

import math
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from memplace_env.program.frontends.lowered.independence import (
    WHOLE,
    Independent,
    WindowAxis,
    best_span,
    independent,
    meet,
    rows_of,
)
from memplace_env.program.program import Program
from memplace_env.program.slicing import sliced
from tests.program.models import load, node, tensor

NAMED = st.sampled_from([None, "a", "b", WindowAxis("w", 0), WindowAxis("w", 2)])
TENSORS = st.lists(st.tuples(st.sampled_from([1, 2, 3, 6]), NAMED), min_size=1, max_size=5)


@given(TENSORS)
def test_spans_are_runs_of_named_axes(tensor: list[tuple[int, object]]) -> None:
    shape, names = zip(*tensor, strict=True)
    where = independent(shape, names)
    axes = [(size, math.prod(shape[axis + 1 :]), names[axis]) for axis, size in enumerate(shape) if size > 1]
    windows = {(low, low * size): name.halo for size, low, name in axes if isinstance(name, WindowAxis) and name.halo}
    runs = groupby(reversed(axes), lambda axis: axis[2] is not None and (axis[1], axis[1] * axis[0]) not in windows)
    parts = [list(run) for free, run in runs if free]
    assert where.spans == tuple((run[0][1], run[-1][1] * run[-1][0]) for run in parts)
    assert {span: halo for span, halo in where.windows.items() if span[0] < span[1]} == windows
    assert independent(shape, names[1:]) == WHOLE


@st.composite
def views(draw: st.DrawFn) -> list[tuple[tuple[int, object], ...]]:
    """Draw shapes of 12 elements, with names of their axes."""
    shapes = draw(st.lists(st.permutations([2, 2, 3]), min_size=1, max_size=3))
    return [tuple((size, draw(NAMED)) for size in shape) for shape in shapes]


@given(views())
def test_what_all_allow(tensors: list[tuple[tuple[int, object], ...]]) -> None:
    """Views of one buffer: whatever may be cut may be cut for each of them, with the most rows read twice."""
    each = [independent(*zip(*tensor, strict=True)) for tensor in tensors]
    both = meet(each)
    for span in (*both.spans, *both.windows):
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
        assert not both.spans
        assert all(low == high for low, high in both.windows)


def test_few_rows_are_better_only_without_halo() -> None:
    rows, columns = (4, 400), (1, 4)
    assert best_span(400, Independent((columns,), {rows: 2})) == rows, "4 rows are too few"
    assert best_span(400, Independent(((1, 16),), {(16, 400): 2})) == (1, 16)
    assert best_span(2**40, Independent(((1, 2**40),))) is None
    assert best_span(2**40, Independent(((2**30, 2**40),))) == (2**30, 2**40)


def rows(program: Program, name: str) -> tuple[int, int]:
    blocks, count = program.tensor_rows[tensor(program, name)].tolist()
    return blocks, count


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


def test_what_one_op_needs_whole_stays_whole() -> None:
    nodes = [node("MatMul", "a a", "b"), node("ReduceSum", "b", "y", keepdims=0)]
    program = load([node("Relu", "x", "a"), *nodes], {"x": [8, 8]})
    assert rows(program, "a") == rows(program, "b") == (1, 1), "both operands of a product, and all summed up"
