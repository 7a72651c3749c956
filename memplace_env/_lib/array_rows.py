"""Arrays of many objects in one kernel: rows of addresses, and views of what lies there.

A compiled loop over games of different programs needs the tables of each. Numba has no list of tuples of arrays that is
cheap to index, and one large copy of all tables would have to be made anew whenever a game changes its program. So each
game has a row of integers: the address and the shape of every array, and every scalar itself. A kernel makes views of
them, which costs some nanoseconds and counts no references.

A view is only as good as its address: whoever makes a row keeps the arrays alive, and makes it anew in another process.
"""

from __future__ import annotations

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
        part: C-contiguous arrays, which must be kept alive as long as the row is used, and integers or bools.
    """
    row: list[int] = []
    for field in part if isinstance(part, tuple) else (part,):
        if isinstance(field, np.ndarray):
            assert field.flags.c_contiguous, "a view of an address is contiguous"
            row += [field.ctypes.data, *field.shape]
        else:
            row.append(int(field))
    return np.array(row, dtype=np.int64)


def at(rows: AddressRows, index: int) -> Any:
    """Return a view of number `index`; in kernels only."""
    raise NotImplementedError(f"Views of addresses are for kernels, not for number {index} of {len(rows.rows)}.")


@intrinsic
def _pointer(context: Any, address: Any) -> Any:
    """Return an integer as a pointer."""

    def generate(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@overload(at, strict=False)
def _at(rows: Any, index: Any) -> Any:
    """Return the source of `at` for one type: an expression for each field, in the order of the row."""
    like: Any = rows.types[0]
    is_tuple, parts, column = isinstance(like, types.BaseTuple), list[str](), 0
    names: dict[str, Any] = {"_carray": carray, "_pointer": _pointer}
    for field in like.types if is_tuple else (like,):
        if isinstance(field, types.Array):
            dtype = f"_dtype_{column}"
            names[dtype] = as_dtype(field.dtype).type
            shape = ", ".join(f"row[{column + axis}]" for axis in range(1, field.ndim + 1))
            parts.append(f"_carray(_pointer(row[{column}]), ({shape},), {dtype})")
            column += 1 + field.ndim
        else:
            parts.append(f"row[{column}] != 0" if field == types.boolean else f"row[{column}]")
            column += 1
    view = parts[0]
    if is_tuple:
        names["_make"], view = like.instance_class, f"_make({', '.join(parts)})"
    exec(f"def view(rows, index):\n    row = rows.rows[index]\n    return {view}", names)
    return names["view"]
