"""Bilinear algorithms for matrix products: how to multiply block matrices with fewer block products.

An algorithm of rank R forms R linear combinations of A's entries and R of B's, multiplies them pairwise, and combines
the products into C = A B. Its coefficients factorise the tensor of matrix multiplication (Strassen 1969; Fawzi et al.,
Nature 2022, "AlphaTensor"), which exact integer arithmetic can check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.program import Ints

Coefficients = NDArray[np.int8]
RANK_47_FILE = "rank47_mod2.txt"


@dataclass(frozen=True, eq=False)
class Factorisation:
    """R products that multiply an n x m matrix A by an m x p matrix B, whose entries are numbered row by row.

    Product r is (sum over a of `u[r, a]` A_a) (sum over b of `v[r, b]` B_b), and C_c is the sum over r of `w[r, c]`
    times product r. The maker of one calls `check`, unless its coefficients are known to be right.

    Attributes:
        name: name of the algorithm.
        shape: (n, m, p).
        u: int8[R, n * m], coefficients of A's entries, -1, 0 or 1.
        v: int8[R, m * p], coefficients of B's entries.
        w: int8[R, n * p], coefficients of the products in C's entries.
        modulus: 2 if the algorithm holds in arithmetic modulo 2 only; None if it holds for all numbers.
    """

    name: str
    shape: tuple[int, int, int]
    u: Coefficients
    v: Coefficients
    w: Coefficients
    modulus: int | None = None

    @property
    def rank(self) -> int:
        """R, the number of products."""
        return len(self.u)

    def check(self) -> Factorisation:
        """Return itself, if it multiplies matrices.

        The sum over r of u[r, a] v[r, b] w[r, c] must be 1 where A_a B_b is a term of C_c, and 0 elsewhere.

        Raises:
            WorkloadError: naming the first entry that is wrong, or factors that are no coefficients of this shape.
        """
        n, m, p = self.shape
        if self.modulus not in (None, 2):
            raise WorkloadError(f"Factorisation {self.name!r} has modulus {self.modulus}; it can be None or 2.")
        for name, factor, entries in (("u", self.u, n * m), ("v", self.v, m * p), ("w", self.w, n * p)):
            if factor.dtype != np.int8 or factor.shape != (self.rank, entries) or (np.abs(factor) > 1).any():
                raise WorkloadError(
                    f"Factorisation {self.name!r}: {name} must be int8[{self.rank}, {entries}] of -1, 0 and 1, "
                    f"not {factor.dtype}{list(factor.shape)}."
                )
            if not factor.any(axis=1).all():
                idle = int(factor.any(axis=1).argmin())
                raise WorkloadError(f"Factorisation {self.name!r}: {name} has only zeros for product {idle}; drop it.")
        u, v, w = (factor.astype(np.int64) for factor in (self.u, self.v, self.w))
        pairs = (u[:, :, None] * v[:, None, :]).reshape(self.rank, -1)
        computed = (pairs.T @ w).reshape(n * m, m * p, n * p)
        due = matmul_tensor(n, m, p)
        wrong = computed != due if self.modulus is None else (computed - due) % self.modulus != 0
        if wrong.any():
            a, b, c = (int(axis) for axis in np.argwhere(wrong)[0])
            modulo = "" if self.modulus is None else f" modulo {self.modulus}"
            raise WorkloadError(
                f"Factorisation {self.name!r} does not multiply matrices: A[{a // m},{a % m}] B[{b // p},{b % p}] "
                f"has coefficient {computed[a, b, c]} in C[{c // p},{c % p}] instead of {due[a, b, c]}{modulo}."
            )
        return self


def matmul_tensor(n: int, m: int, p: int) -> Ints:
    """int64[n * m, m * p, n * p], 1 where A_a B_b is a term of C_c, that is at A_ij, B_jk, C_ik; 0 elsewhere."""
    tensor = np.zeros((n, m, m, p, n, p), dtype=np.int64)
    i, j, k = np.ogrid[:n, :m, :p]
    tensor[i, j, j, k, i, k] = 1
    return tensor.reshape(n * m, m * p, n * p)


def standard(n: int, m: int, p: int) -> Factorisation:
    """The n m p products of the definition."""
    i, j, k = (index.ravel() for index in np.indices((n, m, p)))
    u, v, w = (np.zeros((n * m * p, entries), dtype=np.int8) for entries in (n * m, m * p, n * p))
    for factor, entry in ((u, i * m + j), (v, j * p + k), (w, i * p + k)):
        factor[np.arange(n * m * p), entry] = 1
    return Factorisation("standard", (n, m, p), u, v, w)


def strassen() -> Factorisation:
    """The 7 products of Strassen (1969) for 2 x 2 matrices; columns of each factor are entries 11, 12, 21, 22."""
    u = [[1, 0, 0, 1], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 0, 1], [1, 1, 0, 0], [-1, 0, 1, 0], [0, 1, 0, -1]]
    v = [[1, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, -1], [-1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
    w = [[1, 0, 0, 1], [0, 0, 1, -1], [0, 1, 0, 1], [1, 0, 1, 0], [-1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    return Factorisation("strassen", (2, 2, 2), np.array(u, np.int8), np.array(v, np.int8), np.array(w, np.int8))


def kronecker(outer: Factorisation, inner: Factorisation) -> Factorisation:
    """Recursion: `outer` on blocks whose products `inner` computes; ranks and shapes multiply.

    Raises:
        WorkloadError: if one holds for all numbers and the other modulo 2 only, so that the result has no one modulus.
    """
    if outer.modulus != inner.modulus:
        raise WorkloadError(f"{outer.name!r} and {inner.name!r} do not hold in the same arithmetic; combine like ones.")
    (n, m, p), (n2, m2, p2) = outer.shape, inner.shape
    return Factorisation(
        f"{outer.name} x {inner.name}",
        (n * n2, m * m2, p * p2),
        _kronecker_rows(outer.u, inner.u, (n, m), (n2, m2)),
        _kronecker_rows(outer.v, inner.v, (m, p), (m2, p2)),
        _kronecker_rows(outer.w, inner.w, (n, p), (n2, p2)),
        outer.modulus,
    )


@cache
def rank_47() -> Factorisation:
    """47 products for 4 x 4 matrices modulo 2, a rank that AlphaTensor was the first to reach.

    The coefficients are not AlphaTensor's: `scripts/derive_factorisation.py` finds them by a random walk in the flip
    graph. Each line of the file holds (u, v, w) of a product as hexadecimal words, bit e for entry e.

    Raises:
        WorkloadError: if the file is damaged.
    """
    text = files("memplace_env.placement.synthetic").joinpath("factorisations", RANK_47_FILE).read_text()
    try:
        words = np.array([[int(word, 16) for word in line.split()] for line in text.splitlines()]).reshape(-1, 3)
    except ValueError:
        raise WorkloadError(
            f"{RANK_47_FILE} does not hold three hexadecimal words a line; reinstall memplace."
        ) from None
    u, v, w = ((words[:, factor, None] >> np.arange(16) & 1).astype(np.int8) for factor in range(3))
    return Factorisation("rank-47", (4, 4, 4), u, v, w, modulus=2).check()


FACTORISATIONS: dict[str, Callable[[], Factorisation]] = {
    "standard": lambda: standard(4, 4, 4),
    "strassen": strassen,
    "strassen-squared": lambda: kronecker(strassen(), strassen()),
    "rank-47": rank_47,
}
"""The algorithms that a text like `synthetic:matmul?factorisation=strassen` can name."""


def _kronecker_rows(
    outer: Coefficients, inner: Coefficients, blocks: tuple[int, int], entries: tuple[int, int]
) -> Coefficients:
    """The rows' products, with the entries of all blocks renumbered row by row in the whole matrix."""
    rows: Coefficients = np.einsum("rij,skl->rsikjl", outer.reshape(-1, *blocks), inner.reshape(-1, *entries))
    return rows.reshape(len(outer) * len(inner), -1)
