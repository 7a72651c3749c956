"""Element types and arrays in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import helper
from torch import Tensor


def torch_dtype(element_type: int) -> torch.dtype:
    """Return PyTorch's type of an ONNX `TensorProto.DataType`; NumPy's extension types have the same names."""
    dtype: torch.dtype = getattr(torch, str(helper.tensor_dtype_to_np_dtype(element_type)))
    return dtype


def tensor_of(array: NDArray[Any]) -> Tensor:
    """Return a copy of an array as a tensor in the host."""
    if array.dtype.kind != "V":
        return torch.from_numpy(np.array(array, order="C"))
    bits = np.array(array, order="C").view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(bits).view(getattr(torch, str(array.dtype)))
