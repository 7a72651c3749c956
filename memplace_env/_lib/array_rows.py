"""Arrays of many objects in one kernel: rows of addresses, and views of what lies there.

A compiled loop over games of different programs needs the tables of each. Numba has no list of tuples of arrays that is
cheap to index, and one large copy of all tables would have to be made anew whenever a game changes its program. So each
game has a row of integers: the address and the shape of every array, and every scalar itself. A kernel makes views of
them, which costs some nanoseconds and counts no references.

A view is only as good as its address: whoever makes a row keeps the arrays alive, and makes it anew in another process.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray  # type: ignore[attr-defined]
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray


class AddressRows(NamedTuple):
    """Many arrays, or NamedTuples of arrays and scalars, of one type: number i has row i of addresses.

    Attributes:
        like: one of them, which tells kernels the types.
        rows: int64[B, n], a row of `row_of` for each.
    """

    like: Any
    rows: NDArray[np.int64]


def row_of(part: Any) -> NDArray[np.int64]:
    """Return int64[n], the address and shape of an array, or those of a NamedTuple's arrays and its scalars, in order.

    Args:
        part: C-contiguous arrays, which must be kept alive as long as the row is used, integers, bools, or tuples.
    """
    return np.array(_numbers_of(part), dtype=np.int64)


def rows_of(parts: Sequence[Any]) -> NDArray[np.int64]:
    """Return int64[B, n], the rows of many, see `row_of`."""
    return np.array([_numbers_of(part) for part in parts], dtype=np.int64)


def _numbers_of(part: Any) -> list[int]:
    if isinstance(part, tuple):
        return [number for field in part for number in _numbers_of(field)]
    if isinstance(part, np.ndarray):
        assert part.flags.c_contiguous, "a view of an address is contiguous"
        return [part.__array_interface__["data"][0], *part.shape]
    return [int(part)]


def at(rows: AddressRows, index: int) -> Any:
    """Return a view of number `index`; compiled kernels have their own version, `_at`."""
    return _view(rows.like, iter(rows.rows[index].tolist()))


def _view(like: Any, numbers: Iterator[int]) -> Any:
    if isinstance(like, tuple):
        return type(like)(*(_view(field, numbers) for field in like))
    first = next(numbers)
    if not isinstance(like, np.ndarray):
        return type(like)(first)
    shape = [next(numbers) for _ in range(like.ndim)]
    memory = (ctypes.c_char * (math.prod(shape) * like.itemsize)).from_address(first)
    return np.ndarray(shape, like.dtype, memoryview(memory))


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """Return an integer as a pointer."""

    def generate(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@overload(at, strict=False)
def _at(rows: Any, index: Any) -> Any:
    """Return the source of `at` for one type."""
    names: dict[str, Any] = {"_carray": carray, "_pointer": _pointer}
    view = _expression(rows.types[0], count(), names)
    exec(f"def view(rows, index):\n    row = rows.rows[index]\n    return {view}", names)
    return names["view"]


def _expression(part: Any, columns: Iterator[int], names: dict[str, Any]) -> str:
    """Return the expression that reads a part of this type from the next columns of a row; add to its `names`."""
    if isinstance(part, types.NamedTuple | types.NamedUniTuple):
        fields, make = [_expression(field, columns, names) for field in part.types], f"_make_{len(names)}"
        names[make] = part.instance_class
        return f"{make}({', '.join(fields)})"
    first = next(columns)
    if isinstance(part, types.Array):
        names[f"_dtype_{first}"] = as_dtype(part.dtype).type
        shape = "".join(f"row[{next(columns)}], " for _ in range(part.ndim))
        return f"_carray(_pointer(row[{first}]), ({shape}), _dtype_{first})"
    return f"row[{first}] != 0" if part == types.boolean else f"row[{first}]"
