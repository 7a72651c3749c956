"""Terms of a Program: kinds of tensors, columns of the geometry, dtypes."""

from __future__ import annotations

from enum import IntEnum

GEOMETRY = (
    "batch", "ifm_x", "ifm_y", "ifm_z", "ofm_x", "ofm_y", "ofm_z",
    "groups", "kernel_x", "kernel_y", "stride", "pad", "dilation", "stride_y",
)  # fmt: skip
"""Columns of `Program.geometry`: batch, width (x), height (y) and channels (z) of an op's main feature maps, and its
convolution parameters, with stride, pad and dilation along x; 0 where an op has none, 1 for groups, strides and
dilation."""

FLOAT_BYTES = {"int8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of one element for each dtype that a workload can be deployed in."""


class TensorKind(IntEnum):
    """Role of a tensor in its program."""

    WEIGHT = 0
    INPUT = 1
    ACTIVATION = 2
    OUTPUT = 3
