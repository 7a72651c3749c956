"""Sparse constraints of a linear program, collected term by term."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from memplace_agents.exact.highs import Floats
from memplace_env.program.program import Ints


class RowBuilder:
    """Collects constraints `lower <= matrix @ columns <= upper` from arrays of terms."""

    def __init__(self) -> None:
        self._terms: list[tuple[Ints, Ints, Floats]] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._count = 0

    def new(self, count: int, lower: ArrayLike = 0.0, upper: ArrayLike = np.inf) -> Ints:
        """Add `count` constraints without terms and return their numbers, int64[count]."""
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), count))
        self._upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), count))
        self._count += count
        return np.arange(self._count - count, self._count)

    def add(self, row: ArrayLike, column: Ints, value: ArrayLike = 1.0) -> None:
        """Add value * column to constraints: int[n] each and float[n], or one for all. Columns -1 are skipped."""
        exists = column >= 0
        values = np.broadcast_to(np.asarray(value, dtype=np.float64), column.shape)
        self._terms.append((np.broadcast_to(np.asarray(row), column.shape)[exists], column[exists], values[exists]))

    def subtract(self, row: Ints, terms: sp.csr_array) -> None:
        """Subtract row i of a sparse matrix, `terms @ columns`, from constraint `row[i]`."""
        entries = terms.tocoo()
        self.add(row[entries.row], entries.col.astype(np.int64), -entries.data)

    def matrix(self, columns: int) -> tuple[sp.csr_array, Floats, Floats]:
        """Return the matrix, in which terms of the same entry are added up, and the two sides of its rows."""
        row, column, value = (np.concatenate(parts) for parts in zip(*self._terms, strict=True))
        matrix = sp.csr_array((value, (row, column)), shape=(self._count, columns))
        matrix.sum_duplicates()
        return matrix, np.concatenate(self._lower), np.concatenate(self._upper)
