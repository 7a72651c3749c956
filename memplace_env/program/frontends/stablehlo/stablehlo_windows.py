"""Work of a convolution: only taps that hit data count, not those on padding or in the gaps of a dilated input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from memplace_env.program.lowering.graph_values import Shape
from memplace_env.program.lowering.node_graph import Gemm

_MOST: Final = 2**20
"""Most taps or positions along one dim, to bound the time that counting takes; our choice."""


def valid_taps(
    size: int, taps: int, positions: int, stride: int, padding: int, data_dilation: int, tap_dilation: int
) -> int:
    """Return the number of (position, tap) pairs along one dim that hit data.

    Args:
        size: size of the data.
        taps: size of the kernel.
        positions: size of the result.
        stride: distance of positions.
        padding: padding before the data, negative where it is cropped.
        data_dilation: distance of data in the dilated input.
        tap_dilation: distance of taps.

    Raises:
        ValueError: there are more positions or taps than in any network.
    """
    if max(positions, taps) > _MOST:
        raise ValueError(f"a window of {taps} taps at {positions} positions is absurd")
    counted = 0
    last = (size - 1) * data_dilation
    # Indices into the dilated input; data are at the multiples of `data_dilation` from 0 to `last`.
    first_tap = np.arange(positions, dtype=np.int64) * stride - padding
    for tap in range(taps):
        index = first_tap + tap * tap_dilation
        counted += int(((index >= 0) & (index <= last) & (index % data_dilation == 0)).sum())
    return counted


def convolution(data: Shape, kernel: Shape, result: Shape, attributes: Mapping[str, Any]) -> Gemm:
    """One product per group: positions x the rounded mean number of taps that hit data x filters."""
    dims = attributes["dimension_numbers"]
    rank = len(dims["input_spatial"])
    padding = attributes.get("padding", [[0, 0]] * rank)
    ones = (1,) * rank
    strides, data_dilations, tap_dilations = (
        attributes.get(name, ones) for name in ("window_strides", "lhs_dilation", "rhs_dilation")
    )
    valid, positions = 1, 1
    for axis in range(rank):
        extent = result[dims["output_spatial"][axis]]
        positions *= extent
        valid *= valid_taps(
            data[dims["input_spatial"][axis]],
            kernel[dims["kernel_spatial"][axis]],
            extent,
            strides[axis],
            padding[axis][0],
            data_dilations[axis],
            tap_dilations[axis],
        )
    groups = attributes.get("feature_group_count", 1) * attributes.get("batch_group_count", 1)
    rows = result[dims["output_batch"]] * positions
    depth = round(kernel[dims["kernel_input_feature"]] * valid / positions) if positions else 0
    return groups, rows, max(depth, min(valid, 1)), result[dims["output_feature"]] // groups


def in_onnx_order(shape: Shape, batch: int, features: int, spatial: Sequence[int]) -> Shape:
    """Return a shape as [batch, features, ...spatial]."""
    return (shape[batch], shape[features], *(shape[axis] for axis in spatial))
