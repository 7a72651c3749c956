"""Axes along which a node that slides a window over feature maps treats its tensors independently.

Rules as in `independent_axes`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from memplace_env.program.lowering.independence import Axes, SiteAxes, WindowAxis
from memplace_env.program.lowering.node_graph import Site
from memplace_env.program.lowering.rules.independent_axes import BATCH

CHANNEL: Final = "channel"


def convolution(site: Site, channels_last: bool) -> SiteAxes:
    """Filters, the batch, the window's axes with what windows share, and channels that have filters of their own."""
    weight, groups = site.weight.shape, site.attribute("group", 1)
    own = groups == weight[0] and weight[1] == 1
    inputs: list[Axes] = [()] * len(site.inputs)
    inputs[0] = _image(_windows(site, weight[2:], channels_last), CHANNEL if own else None, channels_last)
    inputs[site.node.operator.weight] = [CHANNEL, *[None] * (len(weight) - 1)]
    operator = site.node.operator
    if operator.conv_head and site.input(operator.bias) is not None:
        inputs[operator.bias] = [CHANNEL]
    return SiteAxes(inputs, [_image(range(len(weight) - 2), CHANNEL, channels_last)])


def transposed_convolution(site: Site, channels_last: bool) -> SiteAxes:
    """The batch, and the filters if there is one group."""
    weight, spatial = site.weight.shape, len(site.weight.shape) - 2
    filters = [None, CHANNEL if site.attribute("group", 1) == 1 else None, *[None] * spatial]
    image = _image([None] * spatial, None, channels_last)
    # Each part of the result needs the whole image, so its axes have names that no operand's have.
    result = _image([("out", axis) for axis in range(spatial)], CHANNEL, channels_last)
    return SiteAxes([image, filters[: len(weight)]], [result])


def pooling(site: Site, channels_last: bool) -> SiteAxes:
    """The batch, channels, and the axes of the window with what windows share."""
    kernel = site.attribute("kernel_shape", ())
    image = _image(_windows(site, kernel, channels_last), CHANNEL, channels_last)
    result = _image(range(len(kernel)), CHANNEL, channels_last)
    return SiteAxes([image], [result] * len(site.outputs))


def pooled_wholly(site: Site, channels_last: bool) -> SiteAxes:
    """The batch and channels."""
    axes = _image([None] * (len(site.needed(0).shape) - 2), CHANNEL, channels_last)
    return SiteAxes([axes], [axes])


def _windows(site: Site, kernel: Sequence[int], channels_last: bool) -> list[Hashable]:
    """Return the names of the axes of operand 0 that a window slides over.

    Windows that share no elements are cut only between them if they, with the gaps between them, fill the axis: then
    padding that rounds up adds nothing in front. Otherwise a cut can part all but one element from their window.
    """
    image, ones = site.needed(0).shape, (1,) * len(kernel)
    strides, dilations = (site.attribute(name, ()) or ones for name in ("strides", "dilations"))
    pads = site.attribute("pads", ())[: len(kernel)] or (0,) * len(kernel)
    windows = zip(image[1:-1] if channels_last else image[2:], kernel, strides, dilations, pads, strict=True)
    names: list[Hashable] = []
    for axis, (size, elements, stride, dilation, pad) in enumerate(windows):
        reach = dilation * (elements - 1) + 1
        fills = reach <= stride and size % stride == pad % stride == 0
        if fills and reach > 1:
            names.append(WindowAxis(axis, 0, stride))
        else:
            names.append(WindowAxis(axis, reach - stride if reach > stride else reach - 1))
    return names


def _image(window: Sequence[Hashable], channel: Hashable, channels_last: bool) -> Axes:
    return [BATCH, *window, channel] if channels_last else [BATCH, channel, *window]
