"""Sliding windows of convolutions and pools."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from memplace_env._lib.units import ceil_div
from memplace_env.backends.cuda.operators.node import OperatorNode

Ints = tuple[int, ...]


class SlidingWindows(NamedTuple):
    """Geometry of windows, by spatial axis.

    Attributes:
        sizes: sizes of the input.
        kernel: elements of a window.
        strides: distances between windows.
        dilations: distances between elements of a window.
        begin: padding before the input.
        end: padding after the input.
    """

    sizes: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints

    @property
    def spans(self) -> Ints:
        """Elements from the first to the last of a window."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))


def windows_of(node: OperatorNode, kernel: Ints) -> SlidingWindows:
    """Return the windows of a node over its first input."""
    sizes = node.shape(0)[2:]
    ones = (1,) * len(sizes)
    strides, dilations = tuple(node.attribute("strides", ones)), tuple(node.attribute("dilations", ones))
    pads = tuple(node.attribute("pads", (0, 0) * len(sizes)))
    windows = SlidingWindows(sizes, kernel, strides, dilations, pads[: len(sizes)], pads[len(sizes) :])
    auto = node.attribute("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return windows
    total = [0] * len(sizes)
    if auto != "VALID":
        every = zip(sizes, strides, windows.spans, strict=True)
        total = [max(0, (ceil_div(size, stride) - 1) * stride + span - size) for size, stride, span in every]
    begin, end = halves(total, auto)
    return windows._replace(begin=begin, end=end)


def halves(total: list[int], auto_pad: str) -> tuple[Ints, Ints]:
    """Split padding into that before and after the input; `SAME_UPPER` has the larger half after it."""
    less, more = tuple(pad // 2 for pad in total), tuple(pad - pad // 2 for pad in total)
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def padded(x: Tensor, begin: Ints, end: Ints, value: float = 0.0) -> Tensor:
    """Pad an input around its last axes; negative padding cuts elements off."""
    if not any(begin) and not any(end):
        return x
    ends = [pad for pair in zip(begin[::-1], end[::-1], strict=True) for pad in pair]
    return functional.pad(x, ends, value=value)
