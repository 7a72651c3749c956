"""Tensors of an ONNX graph: shape and type of each, and the contents of small constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from memplace_env.errors import WorkloadError
from memplace_env.workload.limits import MAX_RANK
from memplace_env.workload.program import FLOAT_BYTES

Array = NDArray[Any]
Shape = tuple[int, ...]

MAX_KNOWN_ELEMENTS: Final = 4096
"""Contents of larger constants are never looked at: they are weights, known by shape only."""

MAX_TENSOR_BYTES: Final = 2**46
"""A bigger tensor (64 TiB) is a mistake in the dims, and sums of such sizes could leave int64."""

_NUMBERS: Final[Mapping[str, int]] = dict(TensorProto.DataType.items())


def _numbered(bits: Mapping[str, int]) -> Mapping[int, int]:
    """Keyed by number, without the types that the installed onnx does not have yet."""
    return {_NUMBERS[name]: width for name, width in bits.items() if name in _NUMBERS}


FLOAT_BITS: Final = _numbered(
    {
        "DOUBLE": 64,
        "FLOAT": 32,
        "FLOAT16": 16,
        "BFLOAT16": 16,
        "FLOAT8E4M3FN": 8,
        "FLOAT8E4M3FNUZ": 8,
        "FLOAT8E5M2": 8,
        "FLOAT8E5M2FNUZ": 8,
        "FLOAT8E8M0": 8,
        "FLOAT4E2M1": 4,
    }
)
"""Bits of one element of each floating-point type."""

INTEGER_BITS: Final = _numbered(
    {
        "INT2": 2,
        "UINT2": 2,
        "INT4": 4,
        "UINT4": 4,
        "INT8": 8,
        "UINT8": 8,
        "INT16": 16,
        "UINT16": 16,
        "INT32": 32,
        "UINT32": 32,
        "INT64": 64,
        "UINT64": 64,
    }
)
"""Bits of one element of each integer type."""

_OTHER_BITS: Final = _numbered({"BOOL": 8, "COMPLEX64": 64, "COMPLEX128": 128})
_BITS: Final = {**FLOAT_BITS, **INTEGER_BITS, **_OTHER_BITS}


def deployed_bits(element_type: int, dtype: str | None) -> int | None:
    """Bits of one element where floating-point tensors are deployed in `dtype`, None for types without a fixed size.

    Integers keep their width, and so do floats of at most 8 bits, which are quantised already; so does everything if
    `dtype` is None.
    """
    wide = FLOAT_BITS.get(element_type, 0) > 8
    return 8 * FLOAT_BYTES[dtype] if wide and dtype is not None else _BITS.get(element_type)


def type_name(element_type: int) -> str:
    """What ONNX calls an element type, for messages."""
    try:
        return str(TensorProto.DataType.Name(element_type))
    except ValueError:
        return f"element type {element_type}"


def type_number(name: str) -> int:
    """The element type that ONNX calls so, UNDEFINED if there is none."""
    return _NUMBERS.get(name, TensorProto.UNDEFINED)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph.

    Attributes:
        shape: dims, all known.
        element_type: an ONNX `TensorProto.DataType`.
        constant: it depends on no graph input.
        data: its contents, for constants of at most `MAX_KNOWN_ELEMENTS` elements whose contents are known.
    """

    shape: Shape
    element_type: int
    constant: bool = False
    data: Array | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def checked_value(
    what: str, shape: Shape, element_type: int, *, constant: bool = False, data: Array | None = None
) -> Value:
    """A `Value`, or a WorkloadError that starts with `what` if no accelerator could hold such a tensor."""
    bits = deployed_bits(element_type, None)
    if bits is None:
        raise WorkloadError(f"{what} holds {type_name(element_type)} elements; only numbers can be placed in memory.")
    if len(shape) > MAX_RANK:
        raise WorkloadError(f"{what} has {len(shape)} dims, and {MAX_RANK} are the most; check the dims.")
    if any(size < 0 for size in shape):
        raise WorkloadError(f"{what} has a negative dimension in its shape {list(shape)}; the file is damaged.")
    if math.prod(shape) * bits > 8 * MAX_TENSOR_BYTES:
        raise WorkloadError(f"{what} has the absurd shape {list(shape)}, over 64 TiB; check the dims.")
    return Value(shape, element_type, constant, data)


def as_bool(data: Array | None) -> bool | None:
    """A known scalar as a bool, None if it is not known."""
    return None if data is None or data.size != 1 else bool(np.asarray(data).reshape(()))
