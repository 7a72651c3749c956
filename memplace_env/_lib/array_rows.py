"""Arrays of many objects in one kernel: rows of addresses, and views of what lies there.

A compiled loop over games of different programs needs the tables of each. Numba has no list of tuples of arrays that is
cheap to index, and one large copy of all tables would have to be made anew whenever a game changes its program. So each
game has a row of integers: the address and the shape of every array, and every scalar itself. A kernel makes views of
them, which costs some nanoseconds and counts no references.

A view is only as good as its address: whoever makes a row keeps the arrays alive, and makes it anew in another process.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import carray  # type: ignore[attr-defined]
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numba.np.numpy_support import as_dtype
from numpy.typing import NDArray

Parts = TypeVar("Parts", bound="tuple[Any, ...]")


def row_of(parts: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return int64[n], addresses and shapes of the arrays of a NamedTuple, and its scalars, in order.

    Args:
        parts: C-contiguous arrays, which must be kept alive as long as the row is used, and integers or bools.
    """
    row: list[int] = []
    for part in parts:
        if isinstance(part, np.ndarray):
            assert part.flags.c_contiguous, "a view of an address is contiguous"
            row += [part.ctypes.data, *part.shape]
        else:
            row.append(int(part))
    return np.array(row, dtype=np.int64)


def viewed(like: Parts, row: NDArray[np.int64]) -> Parts:
    """Return a tuple with what a row of `row_of` says; in kernels only.

    Args:
        like: a tuple of the same type as the one that the row was made of, with arrays of the same dtypes and
            dimensions.
        row: int64[n].
    """
    raise NotImplementedError(f"Views of addresses are for kernels, not for {type(like).__name__} and {len(row)}.")


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """Return an integer as a pointer."""

    def generate(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@overload(viewed, strict=False)
def _viewed(like: Any, row: Any) -> Any:
    """Return the source of `viewed` for one type of tuple: an expression for each field, in the order of the row."""
    fields, at, names = [], 0, {"_make": like.instance_class, "_carray": carray, "_pointer": _pointer}
    for field in like.types:
        if isinstance(field, types.Array):
            dtype = f"_dtype_{at}"
            names[dtype] = as_dtype(field.dtype).type
            shape = ", ".join(f"row[{at + axis}]" for axis in range(1, field.ndim + 1))
            fields.append(f"_carray(_pointer(row[{at}]), ({shape},), {dtype})")
            at += 1 + field.ndim
        else:
            fields.append(f"row[{at}] != 0" if field == types.boolean else f"row[{at}]")
            at += 1
    scope: dict[str, Any] = dict(names)
    exec(f"def view(like, row):\n    return _make({', '.join(fields)})", scope)
    return scope["view"]
