"""What a convolution multiplies: taps that fall on data, not on padding or into the holes of a dilated input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from memplace_env.workload.lowered.rules.products import Gemm
from memplace_env.workload.lowered.values import Shape

_MOST: Final = 2**20


def valid_taps(
    size: int, taps: int, positions: int, stride: int, padding: int, data_dilation: int, tap_dilation: int
) -> int:
    """Along one dim, the number of (position, tap) pairs that hit data.

    Args:
        size: of the data.
        taps: of the kernel.
        positions: of the result.
        stride: between positions.
        padding: before the data, negative where it is cropped.
        data_dilation: distance of data in the dilated input.
        tap_dilation: distance of taps.

    Raises:
        ValueError: more positions or taps than any network has.
    """
    if max(positions, taps) > _MOST:
        raise ValueError(f"a window of {taps} taps at {positions} positions is absurd")
    counted = 0
    reach = (size - 1) * data_dilation
    at = np.arange(positions, dtype=np.int64) * stride - padding
    for tap in range(taps):
        place = at + tap * tap_dilation
        counted += int(((place >= 0) & (place <= reach) & (place % data_dilation == 0)).sum())
    return counted


def convolution(data: Shape, kernel: Shape, result: Shape, attributes: Mapping[str, Any]) -> Gemm:
    """One product per group: positions x what hits data of the receptive field, in the mean and rounded, x filters."""
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
    """A shape as [batch, features, ...spatial]."""
    return (shape[batch], shape[features], *(shape[axis] for axis in spatial))
