"""Strides of views of views are those of NumPy."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.program.lowering.independence import reshaped, row_major, transposed

SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=4)


@st.composite
def steps(draw: st.DrawFn) -> list[list[int]]:
    """Draw shapes of as many elements, each with its axes in some order."""
    shape = draw(SIZES)
    shapes = [draw(st.permutations([size for old in shape for size in (old, 1)])) for _ in range(3)]
    merged = [[*each[:-2], each[-2] * each[-1]] for each in shapes]
    return [shape, *shapes, *merged, [math.prod(shape)]]


@given(steps(), st.data())
def test_views_of_views(shapes: list[list[int]], data: st.DataObject) -> None:
    view = np.arange(math.prod(shapes[0])).reshape(shapes[0])
    strides = row_major(view.shape)
    for shape in shapes:
        after = tuple(shape)
        found = reshaped(view.shape, strides, after)
        changed = view.reshape(after)
        if not np.shares_memory(changed, view):
            assert found is None
            return
        view = changed
        assert found is not None
        assert addresses(after, found) == view.ravel().tolist()
        order = data.draw(st.permutations(range(len(after))))
        turned = view.transpose(order)
        strides = transposed(after, found, order, turned.shape) or ()
        view = turned
        assert addresses(view.shape, strides) == view.ravel().tolist()


def addresses(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    return [sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in np.ndindex(shape)]


def test_shapes_that_contradict_a_view() -> None:
    assert reshaped((2, 3), (3, 1), (5,)) is None
    assert transposed((2, 3), (3, 1), (1, 0), (2, 3)) is None
