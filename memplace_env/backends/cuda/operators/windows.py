"""Sliding windows, and the pools that they are for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from memplace_env._lib.units import ceil_div
from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode

_MAX: Final[Mapping[int, Any]] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE: Final[Mapping[int, Any]] = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


def _max_pool(node: OperatorNode) -> Kernel:
    windows, ceil = windows_of(node, tuple(node.attributes["kernel_shape"])), bool(node.attribute("ceil_mode", 0))
    if node.outputs > 1:
        raise node.error("PyTorch counts the second result's indices otherwise")
    kernel, strides, dilations = windows.kernel, windows.strides, windows.dilations
    pool = partial(_pool(node, _MAX), kernel_size=kernel, stride=strides, dilation=dilations)
    if _takes(windows):
        return partial(pool, padding=windows.begin, ceil_mode=ceil)
    end = _reached(windows, ceil)
    return lambda x: pool(padded(x, windows.begin, end, -torch.inf))


def _average_pool(node: OperatorNode) -> Kernel:
    windows, ceil = windows_of(node, tuple(node.attributes["kernel_shape"])), bool(node.attribute("ceil_mode", 0))
    with_pads = bool(node.attribute("count_include_pad", 0))
    if _takes(windows) and set(windows.dilations) <= {1}:
        kernel, strides, pads = windows.kernel, windows.strides, windows.begin
        pool = partial(_pool(node, _AVERAGE), kernel_size=kernel, stride=strides, padding=pads, ceil_mode=ceil)
        return partial(pool, count_include_pad=with_pads)
    end = _reached(windows, ceil)
    beyond = tuple(reached - pad for reached, pad in zip(end, windows.end, strict=True))
    none = (0,) * len(end)

    def average(x: Tensor) -> Tensor:
        ones = x.new_ones((1, 1, *windows.kernel))

        def sums(y: Tensor) -> Tensor:
            return torch.convolution(y, ones, None, windows.strides, none, windows.dilations, False, none, 1)

        total = sums(padded(x, windows.begin, end).flatten(0, 1).unsqueeze(1))
        counted = padded(x.new_ones((1, 1, *windows.sizes)), windows.begin, windows.end, float(with_pads))
        return (total / sums(padded(counted, none, beyond))).reshape(*x.shape[:2], *total.shape[2:])

    return average


def _pool(node: OperatorNode, pools: Mapping[int, Any]) -> Any:
    """Return PyTorch's function for the node's number of axes."""
    rank = len(node.shape(0)) - 2
    if rank not in pools:
        raise node.error(f"PyTorch has no pool over {rank} axes")
    return pools[rank]


def _takes(windows: SlidingWindows) -> bool:
    """Return whether PyTorch's own padding supports that of the windows."""
    return windows.begin == windows.end and all(
        2 * pad <= size for pad, size in zip(windows.begin, windows.kernel, strict=True)
    )


def _reached(windows: SlidingWindows, ceil: bool) -> tuple[int, ...]:
    """Return how far the last window reaches beyond the input; no window begins beyond it."""
    reached = []
    for size, begin, end, span, stride in zip(
        windows.sizes, windows.begin, windows.end, windows.spans, windows.strides, strict=True
    ):
        room = size + begin + end - span
        last = ceil_div(room, stride) if ceil else room // stride
        if ceil and last * stride >= size + begin:
            last -= 1
        reached.append(max(0, last * stride + span - size - begin))
    return tuple(reached)


def _global(kernel: Any) -> Builder:
    def build(node: OperatorNode) -> Kernel:
        return partial(kernel, dim=tuple(range(2, len(node.shape(0)))), keepdim=True)

    return build


POOLS: Final[Mapping[str, Builder]] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global(torch.mean),
    "GlobalMaxPool": _global(torch.amax),
    "MaxPool": _max_pool,
}


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
