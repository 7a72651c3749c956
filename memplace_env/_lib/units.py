"""Factors between the integer units of the cost arrays and SI units, and integers rounded up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

Whole = TypeVar("Whole", int, "NDArray[np.int64]")

PS_PER_S = 10**12
"""Picoseconds in a second."""

PS = 1e-12
"""Seconds in a picosecond."""

PJ = 1e-12
"""Joules in a picojoule."""


@overload
def ceil_div(value: int | Fraction, by: int) -> int: ...
@overload
def ceil_div(value: NDArray[np.int64], by: int | NDArray[np.int64]) -> NDArray[np.int64]: ...
@overload
def ceil_div(value: int, by: NDArray[np.int64]) -> NDArray[np.int64]: ...


def ceil_div(value: Any, by: Any) -> Any:
    """Return the quotient rounded up, exact for integers, fractions and arrays of integers or objects."""
    return -(-value // by)


def round_up(value: Whole, step: int) -> Whole:
    """Return the least multiple of `step` that is no less than the value."""
    return ceil_div(value, step) * step
