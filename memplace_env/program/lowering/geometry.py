"""The columns `GEOMETRY` of an op: its main feature maps and its window."""

from __future__ import annotations

import math

from memplace_env.program.lowering.graph_values import Shape
from memplace_env.program.lowering.node_graph import Site


def geometry_columns(site: Site, channels_last: bool) -> tuple[int, ...]:
    """Return the 14 columns of `GEOMETRY` of a node, 0 for a missing feature map.

    The input feature map is the first operand that is no constant. [B, C, ..., W] gives x = W, z = C and y = the
    product of the dims between (with `channels_last` [B, ..., W, C] does); [B, S, H] gives x = S, y = 1, z = H (for
    channels-first operators x = H, z = S); [B, F] gives z = F.
    """

    def columns(shape: Shape) -> tuple[int, int, int, int]:
        features_last = len(shape) == 3 and not site.node.operator.channels_first
        return _feature_map(shape, channels_last or features_last)

    data = next((value for value in site.inputs if value is not None and not value.constant), None)
    ifm = (0, 0, 0, 0) if data is None else columns(data.shape)
    ofm = columns(site.result.shape) if any(site.outputs) else (0, 0, 0, 0)
    return (*ifm, *ofm[1:], site.attribute("group", 1), *_window(site, ifm[1], ofm[1]))


def _feature_map(shape: Shape, channels_last: bool) -> tuple[int, int, int, int]:
    """Return (batch, x, y, z)."""
    if len(shape) < 2:
        return 1, 1, 1, math.prod(shape)
    if len(shape) == 2:
        return shape[0], 1, 1, shape[1]
    if channels_last:
        return shape[0], shape[-2], math.prod(shape[1:-2]), shape[-1]
    return shape[0], shape[-1], math.prod(shape[2:-1]), shape[1]


def _window(site: Site, width: int, result_width: int) -> tuple[int, int, int, int, int, int]:
    """Return (kernel x, kernel y, stride, pad, dilation, stride y), the middle three along x; pad is the left one."""
    kernel = site.weight.shape[2:] if site.node.operator.filters else tuple(site.attribute("kernel_shape", ()))
    if not kernel:
        return 0, 0, 1, 0, 1, 1
    stride = site.attribute("strides", (1,))[-1]
    dilation = site.attribute("dilations", (1,))[-1]
    # ONNX lists the pads before all axes, then those behind them; x is the last axis.
    pad = site.attribute("pads", (0,) * 2 * len(kernel))[len(kernel) - 1]
    if site.attribute("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        pad = max(0, (result_width - 1) * stride + (kernel[-1] - 1) * dilation + 1 - width) // 2
    kernel_y, stride_y = (kernel[-2], site.attribute("strides", (1, 1))[-2]) if len(kernel) > 1 else (1, 1)
    return kernel[-1], kernel_y, stride, pad, dilation, stride_y
