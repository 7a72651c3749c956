"""Tensors of an ONNX graph: shape and type of each, and the contents of small constants."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.model_file import MAX_RANK
from memplace_env.program.program import FLOAT_BYTES

Array = NDArray[Any]
Shape = tuple[int, ...]

MAX_KNOWN_ELEMENTS: Final = 4096
"""Most elements of a constant whose contents are read; larger ones are weights, of which only the shape matters."""

REMEMBERED: Final = 4096
"""Answers of each kind that are remembered while a model is read, as layers are alike (our choice)."""

MAX_TENSOR_BYTES: Final = 2**46
"""Most bytes of a tensor, 64 TiB; more is a mistake in the dims, and sums of such sizes could overflow int64."""

_NUMBERS: Final[Mapping[str, int]] = dict(TensorProto.DataType.items())


def _numbered(names: Mapping[int, Sequence[str]]) -> Mapping[int, int]:
    """Return the bits by number of the type, without the types that the installed onnx lacks."""
    return {_NUMBERS[name]: bits for bits, types in names.items() for name in types if name in _NUMBERS}


FLOAT_BITS: Final = _numbered(
    {
        64: ("DOUBLE",),
        32: ("FLOAT",),
        16: ("FLOAT16", "BFLOAT16"),
        8: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"),
        4: ("FLOAT4E2M1",),
    }
)
"""Bits of one element of each floating-point type."""

INTEGER_BITS: Final = _numbered({bits: (f"INT{bits}", f"UINT{bits}") for bits in (2, 4, 8, 16, 32, 64)})
"""Bits of one element of each integer type."""

_OTHER_BITS: Final = _numbered({8: ("BOOL",), 64: ("COMPLEX64",), 128: ("COMPLEX128",)})
_BITS: Final = {**FLOAT_BITS, **INTEGER_BITS, **_OTHER_BITS}


def deployed_bits(element_type: int, dtype: str | None) -> int | None:
    """Return the bits of an element with floats deployed in `dtype`, None for types without a fixed size.

    Integers keep their width, and so do floats of at most 8 bits, which are quantised already. With `dtype` None every
    type does.
    """
    wide = FLOAT_BITS.get(element_type, 0) > 8
    return 8 * FLOAT_BYTES[dtype] if wide and dtype is not None else _BITS.get(element_type)


def type_name(element_type: int) -> str:
    """Return ONNX's name of an element type, for messages."""
    try:
        return str(TensorProto.DataType.Name(element_type))
    except ValueError:
        return f"element type {element_type}"


def type_number(name: str) -> int:
    """Return the element type of an ONNX name, UNDEFINED if there is none."""
    return _NUMBERS.get(name, TensorProto.UNDEFINED)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the graph.

    Attributes:
        shape: dims, all known.
        element_type: an ONNX `TensorProto.DataType`.
        constant: whether it depends on no graph input.
        data: the contents of a constant of at most `MAX_KNOWN_ELEMENTS` elements, None if unknown.
    """

    shape: Shape
    element_type: int
    constant: bool = False
    data: Array | None = None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def checked_value(
    subject: str, shape: Shape, element_type: int, *, constant: bool = False, data: Array | None = None
) -> Value:
    """Return a `Value`.

    Raises:
        WorkloadError: no accelerator could hold such a tensor; the message begins with `subject`.
    """
    bits = deployed_bits(element_type, None)
    if bits is None:
        raise WorkloadError(
            f"{subject} holds {type_name(element_type)} elements; only numbers can be placed in memory."
        )
    if len(shape) > MAX_RANK:
        raise WorkloadError(f"{subject} has {len(shape)} dims; the limit is {MAX_RANK}, so check the dims.")
    if any(size < 0 for size in shape):
        raise WorkloadError(f"{subject} has a negative dimension in its shape {list(shape)}; the file is damaged.")
    if math.prod(shape) * bits > 8 * MAX_TENSOR_BYTES:
        raise WorkloadError(f"{subject} has the absurd shape {list(shape)}, over 64 TiB; check the dims.")
    return Value(shape, element_type, constant, data)


def as_bool(data: Array | None) -> bool | None:
    """Return a known scalar as a bool, None if it is unknown."""
    return None if data is None or data.size != 1 else bool(np.asarray(data).reshape(()))
