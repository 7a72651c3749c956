"""Axes along which an op treats the elements of a tensor independently, as spans of strides: it may be cut there.

Views of one buffer have different shapes but the same order of elements, so axes are compared as spans [low, high) of
strides: an axis of `size` elements that lie `low` apart covers low ... low * size.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from memplace_env.program.consistency import MOST_ROWS
from memplace_env.program.frontends.lowered.graph_values import Shape

Span = tuple[int, int]

ENOUGH_ROWS: Final = 8
"""Rows from which on fewer rows read twice count more than further rows (our choice)."""


class WindowAxis(NamedTuple):
    """The name of an axis that a window slides over.

    Attributes:
        axis: name of the result's axis.
        halo: elements that the windows of neighbouring results share, if the results are computed apart.
    """

    axis: Hashable
    halo: int


Axes = Sequence[Hashable]
"""Names of a tensor's axes at one node: axes of one name are treated element by element, those named None are not."""


class SiteAxes(NamedTuple):
    """Names of the axes of a node's operands and results, by position; empty ones: the tensor stays whole."""

    inputs: Sequence[Axes] = ()
    outputs: Sequence[Axes] = ()


@dataclass(frozen=True, slots=True)
class Independent:
    """Spans of strides along which a tensor may be cut.

    Attributes:
        spans: disjoint, from small strides to large ones; each may be cut anywhere.
        windows: axes that windows slide over, with the elements that each cut makes to be read twice.
    """

    spans: tuple[Span, ...] = ()
    windows: Mapping[Span, int] = field(default_factory=dict)

    def halo(self, span: Span) -> int | None:
        """Return the elements along a span that each cut makes to be read twice, None if it may not be cut."""
        if any(low <= span[0] and span[1] <= high for low, high in self.spans):
            return 0
        return self.windows.get(span)


WHOLE: Final = Independent()
"""A tensor that may not be cut."""


class TensorRows(NamedTuple):
    """A tensor as [blocks, rows, elements of a row]; it may be cut between its rows."""

    blocks: int
    rows: int


def independent(shape: Shape, axes: Axes) -> Independent:
    """Return where a tensor of this shape may be cut by the names of its axes; without a name for each, nowhere."""
    if len(axes) != len(shape):
        return WHOLE
    spans: list[Span] = []
    windows = {}
    low = 1
    for size, name in zip(reversed(shape), reversed(axes), strict=True):
        high = low * size
        if isinstance(name, WindowAxis) and name.halo:
            windows[low, high] = name.halo
        elif name is not None and size > 1:
            spans[-1:] = [(spans[-1][0], high)] if spans and spans[-1][1] == low else [*spans[-1:], (low, high)]
        low = high
    return Independent(tuple(spans), windows)


def meet(parts: Iterable[Independent]) -> Independent:
    """Return where a tensor may be cut if all of these say so."""
    first, *others = parts
    for other in others:
        pairs = ((max(a, c), min(b, d)) for a, b in first.spans for c, d in other.spans)
        spans = tuple(sorted((low, high) for low, high in pairs if low < high and high % low == 0))
        windows = {}
        for span in {**first.windows, **other.windows}:
            one, two = first.halo(span), other.halo(span)
            if one is not None and two is not None:
                windows[span] = max(one, two)
        first = Independent(spans, windows)
    return first


def best_span(elements: int, where: Independent) -> Span | None:
    """Return the span to cut a tensor of `elements` along, None if there is none.

    Up to `ENOUGH_ROWS` more rows are better, then fewer rows read twice, then more rows, then longer ones (our choice).
    """

    def worth(span: Span) -> tuple[float, ...]:
        rows = span[1] // span[0]
        return min(rows, ENOUGH_ROWS), -(where.halo(span) or 0) / rows, rows, span[0]

    spans = [
        span
        for span in (*where.spans, *where.windows)
        if elements % span[1] == 0 and 1 < span[1] // span[0] < MOST_ROWS
    ]
    return max(spans, key=worth, default=None)


def rows_of(elements: int, span: Span) -> TensorRows:
    """Return the rows that a span means for a tensor of `elements`."""
    return TensorRows(elements // span[1], span[1] // span[0])
