"""Axes along which a node treats its tensors independently.

A rule names the axes of each operand and result. An axis of an operand and one of a result have the same name if each
part of the result needs only that part of the operand; parts of all operands with that name, computed one after the
other, give the parts of the result. An axis is called None if it is summed over, normalised over or otherwise needed
whole, or has size 1. Where a rule knows too little it returns no names, and the tensors stay whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final

from memplace_env.program.lowering.graph_values import Shape, Value
from memplace_env.program.lowering.independence import ANYWHERE, Axes, SiteAxes
from memplace_env.program.lowering.node_graph import Site

BATCH: Final = "batch"


Rule = Callable[[Site, bool], SiteAxes]
"""From a node, and whether feature maps are channels-last, to its axes."""

NOTHING: Final = SiteAxes()


def elementwise(site: Site, channels_last: bool) -> SiteAxes:
    """Each element of a result needs one element of each operand, broadcast from the right."""
    result = site.result.shape
    return SiteAxes([_aligned(value, result) for value in site.inputs], [_numbered(value) for value in site.outputs])


def scaled(site: Site, channels_last: bool) -> SiteAxes:
    """Operand 0 is treated element by element, its parameters stay whole."""
    return SiteAxes([_numbered(site.inputs[0])], [_numbered(value) for value in site.outputs])


def normalised_batch(site: Site, channels_last: bool) -> SiteAxes:
    """Operand 0 is scaled; in training, where old versions have further results, by means of the batch."""
    training = site.attribute("training_mode", 0) or not site.attribute("is_test", 1) or any(site.outputs[1:])
    return NOTHING if training else scaled(site, channels_last)


def moved(site: Site, channels_last: bool) -> SiteAxes:
    """Each element of a result is one element of an operand; parameters and tuples are read whole."""
    operator = site.node.operator
    inputs: list[Axes] = [_anywhere(value) for value in site.inputs]
    for position in filter(range(len(inputs)).__contains__, operator.parameters):
        inputs[position] = ()
    for position in operator.tuples:
        inputs[position] = [*inputs[position][:-1], None]
    return SiteAxes(inputs, [_anywhere(value) for value in site.outputs])


def before_axis(default: int) -> Rule:
    """Return the rule of operators that need operand 0 whole from their `axis` on.

    Softmax did so in old versions of ONNX and needs only the axis itself in new ones; without the attribute the axis
    was 1 and is the last, so the rule takes the one that allows less.
    """

    def rule(site: Site, channels_last: bool) -> SiteAxes:
        rank = len(site.needed(0).shape)
        axis = site.attribute("axis", default) % max(1, rank)
        return SiteAxes(
            [_but(site.inputs[0], range(axis, rank))], [_but(value, range(axis, rank)) for value in site.outputs]
        )

    return rule


def but_axis(default: int) -> Rule:
    """Return the rule of operators that need operand 0 whole along their `axis` only."""

    def rule(site: Site, channels_last: bool) -> SiteAxes:
        axis = site.attribute("axis", default) % max(1, len(site.needed(0).shape))
        return SiteAxes([_but(site.inputs[0], [axis])], [_but(value, [axis]) for value in site.outputs])

    return rule


def but_axes(default: Sequence[int]) -> Rule:
    """Return the rule of operators that need operand 0 whole along their `axes` only."""

    def rule(site: Site, channels_last: bool) -> SiteAxes:
        rank = len(site.needed(0).shape)
        axes = [axis % max(1, rank) for axis in site.attribute("axes", default)]
        return SiteAxes([_but(site.inputs[0], axes)], [_but(value, axes) for value in site.outputs])

    return rule


def first_axes(count: int) -> Rule:
    """Return the rule of operators that treat only the first axes of operand 0 and the results independently.

    Of channels-last tensors that is the batch, as channels are the axis behind it.
    """

    def rule(site: Site, channels_last: bool) -> SiteAxes:
        first = 1 if channels_last else count
        return SiteAxes([_first(site.inputs[0], first)], [_first(value, first) for value in site.outputs])

    return rule


def same_sizes(site: Site, channels_last: bool) -> SiteAxes:
    """Operand 0 is resampled along the axes whose size changes, and those are needed whole.

    Other axes are resampled too where a scale such as 1.1 is rounded, or only a region of the operand is taken.
    """
    before, after = site.needed(0).shape, site.result.shape
    changed = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    one_scale = site.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch"
    if one_scale or site.attribute("coordinate_transformation_mode", b"") == b"tf_crop_and_resize":
        return NOTHING
    scales = site.attribute("scales", ())
    given = site.input(1 if len(site.inputs) == 2 else 2)
    if given is not None and given.elements:
        if given.data is None:
            return NOTHING
        scales = given.data.reshape(-1).tolist()
    if sum(scale != 1 for scale in scales) > len(changed):
        return NOTHING
    return SiteAxes([_but(site.inputs[0], changed)], [_but(site.result, changed)])


def of_batch(site: Site, channels_last: bool) -> SiteAxes:
    """Only the first axis of the operands of three or more axes is independent."""
    size = site.needed(0).shape[0]

    def axes(value: Value | None) -> Axes:
        fits = value is not None and len(value.shape) > 2 and value.shape[0] == size
        return _first(value, 1, (BATCH,)) if fits else ()

    return SiteAxes([axes(value) for value in site.inputs], [axes(value) for value in site.outputs])


def attention(site: Site, channels_last: bool) -> SiteAxes:
    """Only the batch is independent, which is not the first axis of a mask of three: those are its heads."""
    inputs, outputs = of_batch(site, channels_last)
    mask = site.input(3)
    if mask is not None and len(mask.shape) == 3:
        inputs = [*inputs[:3], (), *inputs[4:]]
    return SiteAxes(inputs, outputs)


def reduced(site: Site, channels_last: bool) -> SiteAxes:
    """Operand 0 is needed whole along the axes that are reduced."""
    rank = len(site.needed(0).shape)
    axes = site.attribute("axes", None)
    if axes is None and site.input(1) is not None:
        known = site.contents(1)
        if known is None:
            return NOTHING
        axes = known.reshape(-1).tolist()
    if not axes:
        if site.attribute("noop_with_empty_axes", 0):
            return elementwise(site, channels_last)
        axes = range(rank)
    return _without(site, [axis % max(1, rank) for axis in axes])


def found(site: Site, channels_last: bool) -> SiteAxes:
    """Operand 0 is needed whole along the `axis` of an ArgMax or ArgMin, None if it is unknown."""
    axis = site.attribute("axis", 0)
    return NOTHING if axis is None else _without(site, [axis % max(1, len(site.needed(0).shape))])


def summed_along(site: Site, channels_last: bool) -> SiteAxes:
    """Running sums need operand 0 whole along the axis that operand 1 names."""
    axis, rank = site.contents(1), len(site.needed(0).shape)
    if axis is None:
        return NOTHING
    whole = [int(axis.reshape(-1)[0]) % max(1, rank)]
    return SiteAxes([_but(site.inputs[0], whole)], [_but(site.result, whole)])


def matmul(site: Site, channels_last: bool) -> SiteAxes:
    """Rows of the left operand, columns of the right one, and the dims of the batch."""
    a, b, result = site.needed(0).shape, site.weight.shape, site.result.shape
    batch = result[: len(result) - (len(a) > 1) - (len(b) > 1)]
    left = [*_aligned_dims(a[:-2], batch), "row", None] if len(a) > 1 else [None]
    right = [*_aligned_dims(b[:-2], batch), None, "column"] if len(b) > 1 else [None]
    inputs: list[Axes] = [()] * len(site.inputs)
    inputs[0], inputs[site.node.operator.weight] = left, right
    whole = [*range(len(batch)), *["row"] * (len(a) > 1), *["column"] * (len(b) > 1)]
    return SiteAxes(inputs, [whole])


def gemm(site: Site, channels_last: bool) -> SiteAxes:
    """Rows of the left operand and columns of the right one, whichever way they lie; the third is added."""
    left = [None, "row"] if site.attribute("transA", 0) else ["row", None]
    right = ["column", None] if site.attribute("transB", 0) else [None, "column"]
    added = site.input(2)
    names = ("row", "column")
    third = () if added is None else names[2 - len(added.shape) :]
    return SiteAxes([left, right, third][: len(site.inputs)], [names])


def fully_connected(site: Site, channels_last: bool) -> SiteAxes:
    """A product with a bias, which has an element for each column."""
    inputs, outputs = matmul(site, channels_last)
    bias = [["column"]] if site.input(2) is not None else []
    return SiteAxes([*inputs[:2], *bias], outputs)


def einsum(site: Site, channels_last: bool) -> SiteAxes:
    """Labels of an operand that are labels of the result."""
    equation = site.attribute("equation", b"").decode().replace(" ", "")
    left, arrow, right = equation.partition("->")
    if "..." in equation or not arrow:
        return NOTHING
    terms = left.split(",")
    return SiteAxes([[label if label in right else None for label in term] for term in terms], [list(right)])


def _aligned(value: Value | None, result: Shape) -> Axes:
    return () if value is None else _aligned_dims(value.shape, result)


def _aligned_dims(shape: Shape, result: Shape) -> Axes:
    """Return the numbers of the result's axes that an operand's axes broadcast to, None where it has size 1."""
    missing = len(result) - len(shape)
    return [missing + axis if size > 1 else None for axis, size in enumerate(shape)]


def _numbered(value: Value | None) -> Axes:
    return () if value is None else range(len(value.shape))


def _anywhere(value: Value | None) -> Axes:
    return () if value is None else [ANYWHERE] * len(value.shape)


def _but(value: Value | None, whole: Iterable[int]) -> Axes:
    if value is None:
        return ()
    kept = set(whole)
    return [None if axis in kept else axis for axis in range(len(value.shape))]


def _first(value: Value | None, count: int, called: Sequence[Hashable] = range(8)) -> Axes:
    return () if value is None else [called[axis] if axis < count else None for axis in range(len(value.shape))]


def _without(site: Site, axes: Iterable[int]) -> SiteAxes:
    """Return the axes of a reduction over some of operand 0's axes."""
    over = set(axes)
    rank = len(site.needed(0).shape)
    operand = [None if axis in over else axis for axis in range(rank)]
    kept = operand if site.attribute("keepdims", 1) else [axis for axis in operand if axis is not None]
    return SiteAxes([operand], [kept])
