"""Largest shapes of results whose size the data decide, by output position."""

from __future__ import annotations

from collections.abc import Sequence

from memplace_env.program.lowering.graph_values import Shape
from memplace_env.program.lowering.node_graph import Site


def like_first(site: Site) -> Sequence[Shape]:
    """Return the shape of input 0 for every output, each of which is a part of it."""
    return [site.needed(0).shape] * len(site.node.outputs)


def nonzero(site: Site) -> Sequence[Shape]:
    """Return room for the indices of all elements."""
    data = site.needed(0)
    return [(len(data.shape), data.elements)]


def compressed(site: Site) -> Sequence[Shape]:
    """Return the shape if the condition of `Compress` holds everywhere: along an axis, or of all elements in a row."""
    data, condition = site.needed(0), site.needed(1)
    axis = site.node.attributes.get("axis")
    if axis is None:
        return [(min(data.elements, condition.elements),)]
    axis %= len(data.shape)
    return [(*data.shape[:axis], min(data.shape[axis], condition.elements), *data.shape[axis + 1 :])]


def unique(site: Site) -> Sequence[Shape]:
    """Return the shapes if no two elements, or slices along the axis, are the same."""
    data, axis = site.needed(0), site.node.attributes.get("axis")
    if axis is None:
        return [(data.elements,)] * 4
    return [data.shape, *[(data.shape[axis],)] * 3]


def suppressed(site: Site) -> Sequence[Shape]:
    """Return room for all boxes of each class of each image, or for as many as input 2 allows."""
    images, classes, boxes = site.needed(1).shape
    most = site.input(2)
    if most is not None and most.data is not None:
        boxes = min(boxes, int(most.data.reshape(-1)[0]))
    return [(images * classes * boxes, 3)]
