"""What every way of tiling says of a program: the form between a unit's own rules and the cost arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.workload.program import Ints


class Tiling(NamedTuple):
    """How a unit works through each op.

    Attributes:
        compute_ps: int64[T], if memory were free.
        moved_bytes: int64[U], bytes that each use moves, operands read again counted again, rounded up to what the unit
            moves at once.
        run_bytes: int64[U], contiguous bytes of each of its accesses, at least 1.
        reserved_bytes: int64[T], bytes of the fastest level that the op keeps for staging.
        staged: bool[U], uses that a slower level serves once, into the reserved bytes; None: no use is.
        request_words: int64[U], 16-byte words that can be asked for at once on behalf of each use; None: no bound.
        staging_words: the same for staging.
    """

    compute_ps: Ints
    moved_bytes: Ints
    run_bytes: Ints
    reserved_bytes: Ints
    staged: NDArray[np.bool_] | None = None
    request_words: Ints | None = None
    staging_words: int = 0


def round_up(value: Ints | int, step: Ints | int) -> Ints:
    """The least multiple of `step` that is no less; both at least 0 and 1."""
    return np.asarray(-(-np.asarray(value) // step) * step)
