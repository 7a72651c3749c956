"""The windows that convolutions and pools slide over their input."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor
from torch.nn import functional

from memplace_env.device.operators.node import Node

Ints = tuple[int, ...]


class Windows(NamedTuple):
    """How windows lie, by spatial axis.

    Attributes:
        sizes: of the input.
        kernel: elements of a window.
        strides: from a window to the next.
        dilations: from an element of a window to the next.
        begin: padding in front.
        end: padding behind.
    """

    sizes: Ints
    kernel: Ints
    strides: Ints
    dilations: Ints
    begin: Ints
    end: Ints

    @property
    def spans(self) -> Ints:
        """From the first to the last element of a window."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))


def windows_of(node: Node, kernel: Ints) -> Windows:
    """The windows of a node over its first input."""
    sizes = node.shape(0)[2:]
    ones = (1,) * len(sizes)
    strides, dilations = tuple(node.attribute("strides", ones)), tuple(node.attribute("dilations", ones))
    pads = tuple(node.attribute("pads", (0, 0) * len(sizes)))
    windows = Windows(sizes, kernel, strides, dilations, pads[: len(sizes)], pads[len(sizes) :])
    auto = node.attribute("auto_pad", "NOTSET")
    if auto == "NOTSET":
        return windows
    total = [0] * len(sizes)
    if auto != "VALID":
        every = zip(sizes, strides, windows.spans, strict=True)
        total = [max(0, (-(-size // stride) - 1) * stride + span - size) for size, stride, span in every]
    begin, end = halves(total, auto)
    return windows._replace(begin=begin, end=end)


def halves(total: list[int], auto_pad: str) -> tuple[Ints, Ints]:
    """Padding in front and behind; `SAME_UPPER` has the larger half behind."""
    less, more = tuple(each // 2 for each in total), tuple(each - each // 2 for each in total)
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def padded(x: Tensor, begin: Ints, end: Ints, value: float = 0.0) -> Tensor:
    """The input with padding around its last axes; what is below 0 is cut off."""
    if not any(begin) and not any(end):
        return x
    ends = [each for pair in zip(begin[::-1], end[::-1], strict=True) for each in pair]
    return functional.pad(x, ends, value=value)
