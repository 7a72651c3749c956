"""`Slices`: the tensors that a sliced Program's tensors are slices of, and their shares of what the whole costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.program_arrays import Ints, ProgramArrays


@dataclass(frozen=True, eq=False)
class Slices:
    """The tensors that a sliced Program's tensors are slices of. K and U are those of the sliced Program.

    Attributes:
        whole: the Program that was cut.
        slice_of: int64[K], number of the whole tensor; its slices follow each other.
        rows: int64[K, 2], first row of the slice and the one behind its last, of the `tensor_rows` of the whole.
        use_of: int64[U], number of the whole tensor's use.
        use_rows: int64[U, 2], the rows that the use moves: those of its slice, and its halo behind them.
    """

    whole: ProgramArrays
    slice_of: Ints
    rows: Ints
    use_of: Ints
    use_rows: Ints

    def of_uses(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shares int64[U, ...] of what each use of the whole has, int64[uses of the whole, ...]."""
        tensor = self.whole.use_tensor[self.use_of]
        return _shares(amounts[self.use_of], self.use_rows, self.whole.tensor_rows[tensor, 1])

    def of_tensors(self, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the shares int64[K, ...] of what each tensor of the whole has, int64[tensors of the whole, ...]."""
        return _shares(amounts[self.slice_of], self.rows, self.whole.tensor_rows[self.slice_of, 1])


def _shares(amounts: NDArray[np.int64], ranges: Ints, rows: Ints) -> NDArray[np.int64]:
    """Return x * end // rows - x * begin // rows, so that shares of ranges that meet add up exactly."""
    dims = (slice(None), *[None] * (amounts.ndim - 1))
    first, last, rows = ranges[:, 0][dims], ranges[:, 1][dims], rows[dims]
    # Quotient and remainder apart, as the product of an amount and a row may leave int64.
    quotient, rest = amounts // rows, amounts % rows
    return np.asarray(quotient * (last - first) + rest * last // rows - rest * first // rows)
