"""Strides of views: how far apart in their buffer neighbouring elements of each axis lie, in elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from memplace_env.program.frontends.lowered.graph_values import REMEMBERED, Shape

Strides = tuple[int, ...]


@lru_cache(REMEMBERED)
def row_major(shape: Shape) -> Strides:
    """Return the strides of a tensor of its own."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def reshaped(shape: Shape, strides: Strides, after: Shape) -> Strides | None:
    """Return the strides of a view of a view in another shape, None if it is none or the shapes contradict it."""
    if math.prod(shape) != math.prod(after):
        return None
    # Axes that lie one in the other are one run of elements, whatever shape that has.
    runs: list[tuple[int, int]] = []
    for size, stride in zip(shape, strides, strict=True):
        if size > 1:
            outer = runs.pop()[0] if runs and runs[-1][1] == size * stride else 1
            runs.append((outer * size, stride))
    # Elements of the current run that no axis covers yet, and how far apart they lie; new axes cover runs in order.
    left, apart, found = 1, 1, []
    for size in after:
        if size > 1 and left == 1:
            left, apart = runs.pop(0)
        if left % size:
            return None
        left //= size
        found.append(left * apart)
    return tuple(found)


def transposed(shape: Shape, strides: Strides, order: Sequence[int], after: Shape) -> Strides | None:
    """Return the strides of a view with the axes of a view in another order, None if the shapes contradict it."""
    return tuple(strides[axis] for axis in order) if tuple(shape[axis] for axis in order) == after else None
