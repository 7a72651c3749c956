"""Axes along which an op treats the elements of a tensor independently, as spans of strides: it may be cut there.

Views of one buffer have different shapes and strides, so axes are compared by what they are in the buffer, as spans
[low, high) of strides: an axis of `size` elements that lie `low` apart covers low ... low * size.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from memplace_env._lib.units import ceil_div
from memplace_env.program.consistency import MOST_ROWS
from memplace_env.program.lowering.graph_values import REMEMBERED, Shape

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


Span = tuple[int, int]

ENOUGH_ROWS: Final = 8
"""Rows from which on fewer rows read twice count more than further rows (our choice)."""

ANYWHERE: Final = "anywhere"
"""Name of the axes of a tensor that is only moved: wherever it is cut, each result needs one part."""


class WindowAxis(NamedTuple):
    """The name of an axis that a window slides over.

    Attributes:
        axis: name of the result's axis.
        halo: elements that the windows of neighbouring results share, or that a cut can part from their window.
        unit: elements from one place to the next where it may be cut, so that windows that share none stay whole.
    """

    axis: Hashable
    halo: int
    unit: int = 1


Axes = Sequence[Hashable]
"""Names of a tensor's axes at one node: axes of one name are treated element by element, those named None are not."""


class SiteAxes(NamedTuple):
    """Names of the axes of a node's operands and results, by position; empty ones: the tensor stays whole."""

    inputs: Sequence[Axes] = ()
    outputs: Sequence[Axes] = ()


class NamedView(NamedTuple):
    """A view of a buffer that an op reads or writes.

    Attributes:
        shape: sizes of its axes.
        strides: by axis, in elements of the buffer; None if they are unknown.
        axes: names of its axes; without a name for each, it stays whole.
    """

    shape: Shape
    strides: Strides | None
    axes: Axes


@dataclass(frozen=True, slots=True)
class Independent:
    """Spans of strides along which a tensor may be cut.

    Attributes:
        halos: by span, the elements along it that each cut makes to be read twice. Without a halo, parts of the span
            may be cut, too.
    """

    halos: Mapping[Span, int] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(frozenset(self.halos.items()))

    def halo(self, span: Span) -> int | None:
        """Return the elements along a span that each cut makes to be read twice, None if it may not be cut."""
        low, high = span
        halos = [
            ceil_div(halo * own_low, low)
            for (own_low, own_high), halo in self.halos.items()
            if low % own_low == 0 and (own_high == high if halo else own_high % high == 0)
        ]
        return min(halos, default=None)


WHOLE: Final = Independent()
"""A tensor that may not be cut."""


class TensorRows(NamedTuple):
    """A tensor as [blocks, rows, elements of a row]; it may be cut between its rows."""

    blocks: int
    rows: int


class _Axis(NamedTuple):
    """An axis of more than one element: its span and its name."""

    low: int
    high: int
    name: Hashable

    def clashes(self, other: _Axis) -> bool:
        """Return whether a part of the buffer lies along both axes, and what it is for the one it is not for the other.

        Axes that are needed whole, or only moved, do not clash.
        """
        apart = self.high <= other.low or other.high <= self.low
        return not (apart or self == other or other.name is None or self.name == other.name == ANYWHERE)


def aligned(operand: Sequence[NamedView], result: Sequence[NamedView], rowwise: bool) -> bool:
    """Return whether one op's result needs, of an operand, for each element only that at the same place in its buffer.

    Args:
        operand: all views of a buffer that the op reads.
        result: those that it writes.
        rowwise: whether elements along axes without a name may be needed together; then the outermost axis has a name,
            so that rows follow each other.
    """
    places = {_places(view, rowwise) for view in (*operand, *result)}
    return len(places) == 1 and None not in places


def _places(view: NamedView, rowwise: bool) -> tuple[_Axis, ...] | None:
    """Return the axes of a view in order, None if they do not say where each element lies and what needs it."""
    if view.strides is None or len(view.axes) != len(view.shape):
        return None
    axes = zip(view.strides, view.shape, view.axes, strict=True)
    places = tuple(_Axis(low, low * size, name) for low, size, name in axes if size > 1)
    sure = places[:1] if rowwise else places
    return None if any(axis.name is None for axis in sure) else places


def independent(views: Sequence[NamedView]) -> Independent:
    """Return where a tensor may be cut by the names of its axes in all the views that one op reads or writes.

    An axis that has another name in another view stays whole: a result would need one part of it by the one name and
    another part by the other.
    """
    return _independent(tuple(NamedView(view.shape, view.strides, tuple(view.axes)) for view in views))


@lru_cache(REMEMBERED)
def _independent(views: tuple[NamedView, ...]) -> Independent:
    """Return `independent`."""
    if any(view.strides is None or len(view.axes) != len(view.shape) for view in views):
        return WHOLE
    by_view = [_axes(view) for view in views]
    all_axes = list(chain(*by_view))
    return meet(_free(axis for axis in axes if not any(map(axis.clashes, all_axes))) for axes in by_view)


def _axes(view: NamedView) -> list[_Axis]:
    """Return the axes of a view, from small strides to large ones."""
    assert view.strides is not None
    axes = zip(view.strides, view.shape, view.axes, strict=True)
    return sorted((_Axis(low, low * size, name) for low, size, name in axes if size > 1), key=lambda axis: axis.low)


def _free(axes: Iterable[_Axis]) -> Independent:
    """Return the spans of axes that have names; neighbours that may be cut anywhere are one span."""
    spans: list[Span] = []
    windows: dict[Span, int] = {}
    for low, high, name in axes:
        if isinstance(name, WindowAxis) and name.halo:
            windows[low, high] = name.halo
        elif name is not None:
            begin = low * (name.unit if isinstance(name, WindowAxis) else 1)
            spans.append((spans.pop()[0] if spans and spans[-1][1] == begin else begin, high))
    return Independent({**dict.fromkeys(spans, 0), **windows})


def meet(parts: Iterable[Independent]) -> Independent:
    """Return where a tensor may be cut if all of these say so."""
    return _meet(tuple(parts))


@lru_cache(REMEMBERED)
def _meet(parts: tuple[Independent, ...]) -> Independent:
    """Return `meet`."""
    first, *others = parts
    for other in others:
        spans = {(math.lcm(a, c), math.gcd(b, d)) for a, b in first.halos for c, d in other.halos}
        halos = {}
        for span in sorted(spans):
            one, two = first.halo(span), other.halo(span)
            if span[0] < span[1] and span[1] % span[0] == 0 and one is not None and two is not None:
                halos[span] = max(one, two)
        first = Independent(halos)
    return first


@lru_cache(REMEMBERED)
def best_span(elements: int, where: Independent) -> Span | None:
    """Return the span to cut a tensor of `elements` along, None if there is none.

    Up to `ENOUGH_ROWS` more rows are better, then fewer rows read twice, then more rows, then longer ones (our choice).
    """

    def worth(span: Span) -> tuple[float, ...]:
        rows = span[1] // span[0]
        return min(rows, ENOUGH_ROWS), -(where.halo(span) or 0) / rows, rows, span[0]

    spans = [span for span in where.halos if elements % span[1] == 0 and 1 < span[1] // span[0] < MOST_ROWS]
    return max(spans, key=worth, default=None)


def rows_of(elements: int, span: Span) -> TensorRows:
    """Return the rows that a span means for a tensor of `elements`."""
    return TensorRows(elements // span[1], span[1] // span[0])
