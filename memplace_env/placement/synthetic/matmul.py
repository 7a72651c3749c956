"""Block matrix multiplication as a Program: the schedule that a bilinear factorisation leads to.

The granularity and order of the ops are our choice, after what a fusing compiler does:

- A linear combination of blocks is one element-wise op that reads all its terms and writes once. Equal combinations
  (also with opposite signs) are computed once. One that is a single block is the block itself; signs move into C.
- Products come in the order that completes blocks of C early: always those next that the block with the fewest missing
  products still lacks. Each product's combinations come right before it.
- A block of C is combined as soon as its last product is there. The products live until then: summing them up as they
  come would move more bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.synthetic.bilinear import FACTORISATIONS, Coefficients, Factorisation
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import FLOAT_BYTES, Program, TensorKind

LARGEST = 2**20
"""Rows and columns of the largest matrices, our choice: far beyond what a backing memory holds."""


class Step(NamedTuple):
    """One op of the schedule.

    Attributes:
        op_type: `MatMul`, the product of two blocks, or `Sum`, the signed sum of blocks.
        result: name of the block that it makes.
        terms: names of the blocks that it reads; the two factors of a `MatMul` in order.
        signs: 1 or -1 for each term.
    """

    op_type: str
    result: str
    terms: tuple[str, ...]
    signs: tuple[int, ...]


def steps(factorisation: Factorisation) -> Iterator[Step]:
    """Yield the ops of the schedule, over blocks of the inputs `A_i_j` and `B_j_k` and of the outputs `C_i_k`."""
    n, m, p = factorisation.shape
    u, v, w = _positive(factorisation)
    a_blocks, b_blocks, c_blocks = _names("A", n, m), _names("B", m, p), _names("C", n, p)
    products = [f"product_{r}" for r in range(factorisation.rank)]
    # A block of C that is one product, as it is, needs no op of its own.
    alone = (np.abs(w).sum(axis=0) == 1) & (w.sum(axis=0) == 1)
    for block in np.flatnonzero(alone):
        products[w[:, block].argmax()] = c_blocks[block]
    combined: dict[tuple[str, bytes], str] = {}
    missing = w != 0
    for r in _order(missing):
        factors: list[str] = []
        for side, row, blocks in (("left", u[r], a_blocks), ("right", v[r], b_blocks)):
            key = side, row.tobytes()
            if key not in combined:
                single = np.abs(row).sum() == 1
                combined[key] = blocks[row.argmax()] if single else f"{side}_{r}"
                if not single:
                    yield _sum(combined[key], blocks, row)
            factors.append(combined[key])
        yield Step("MatMul", products[r], tuple(factors), (1, 1))
        complete = missing[r] & (missing.sum(axis=0) == 1)
        missing[r] = False
        for block in np.flatnonzero(complete & ~alone):
            yield _sum(c_blocks[block], products, w[:, block])


def matmul_program(
    factorisation: str | Factorisation = "strassen-squared", size: int = 8192, dtype: str | None = None
) -> Program:
    """Return the Program that multiplies two square matrices block by block.

    Args:
        factorisation: a key of `FACTORISATIONS`, or one of your own, which is checked.
        size: rows and columns of the matrices, a multiple of the factorisation's n, m and p.
        dtype: of the elements; bfloat16 by default. Factorisations modulo 2 compute on bits, held as int8: sums are
            exclusive ors, and the parity of each element of a product is taken in the product's op.

    Raises:
        WorkloadError: for an unknown factorisation, one that does not multiply matrices, or a size or dtype that does
            not fit.
    """
    if isinstance(factorisation, str):
        if factorisation not in FACTORISATIONS:
            names = ", ".join(FACTORISATIONS)
            raise WorkloadError(f"No factorisation is called {factorisation!r}; there are {names}.")
        name, chosen = factorisation, FACTORISATIONS[factorisation]()
    else:
        name, chosen = factorisation.name, factorisation.check()
    n, m, p = chosen.shape
    if not 1 <= size <= LARGEST or any(size % blocks for blocks in chosen.shape):
        raise WorkloadError(
            f"{name} cuts matrices into {n} x {m} and {m} x {p} blocks, so size must be a multiple of these between 1 "
            f"and {LARGEST}, not {size}."
        )
    dtype = dtype or ("bfloat16" if chosen.modulus is None else "int8")
    if dtype not in FLOAT_BYTES or (chosen.modulus is not None and dtype != "int8"):
        allowed = "int8, since it computes modulo 2" if chosen.modulus is not None else ", ".join(FLOAT_BYTES)
        raise WorkloadError(f"{name} takes dtype {allowed}, not {dtype!r}.")

    rows, depth, columns = size // n, size // m, size // p
    elements = {
        "A": rows * depth, "left": rows * depth, "B": depth * columns, "right": depth * columns,
        "product": rows * columns, "C": rows * columns,
    }  # fmt: skip
    kinds = {"A": TensorKind.INPUT, "B": TensorKind.INPUT, "C": TensorKind.OUTPUT}
    builder = ProgramBuilder(f"synthetic:matmul?factorisation={name}&size={size}&dtype={dtype}", dtype)
    numbers: dict[str, int] = {}
    for step in steps(chosen):
        for block in (*step.terms, step.result):
            if block not in numbers:
                role = block.partition("_")[0]
                kind = kinds.get(role, TensorKind.ACTIVATION)
                numbers[block] = builder.tensor(block, elements[role] * FLOAT_BYTES[dtype], kind)
        if step.op_type == "MatMul":
            gemm, ops_per_element = (1, rows, depth, columns), int(chosen.modulus is not None)
        else:
            gemm, ops_per_element = (0, 0, 0, 0), max(1, len(step.terms) - 1)
        builder.op(
            step.op_type,
            [numbers[term] for term in step.terms],
            [numbers[step.result]],
            name=step.result,
            gemm=gemm,
            vector_ops=ops_per_element * elements[step.result.partition("_")[0]],
        )
    return builder.build()


def _names(matrix: str, rows: int, columns: int) -> list[str]:
    return [f"{matrix}_{row}_{column}" for row in range(rows) for column in range(columns)]


def _positive(factorisation: Factorisation) -> tuple[Coefficients, Coefficients, Coefficients]:
    """Return the factors with the first coefficient of each row of u and v made 1, its sign moved into w."""
    u, v, w = factorisation.u, factorisation.v, factorisation.w
    if factorisation.modulus is not None:
        return np.abs(u), np.abs(v), np.abs(w)
    u_sign, v_sign = (np.take_along_axis(f, (f != 0).argmax(axis=1)[:, None], axis=1) for f in (u, v))
    return u * u_sign, v * v_sign, w * u_sign * v_sign


def _sum(result: str, names: list[str], coefficients: Coefficients) -> Step:
    terms = np.flatnonzero(coefficients)
    return Step("Sum", result, tuple(names[at] for at in terms), tuple(int(coefficients[at]) for at in terms))


def _order(needed: np.ndarray) -> list[int]:
    """Return the products in the order of the schedule; `needed` bool[R, C blocks]: a product is part of a block."""
    left, order = needed.copy(), list[int]()
    while left.any():
        count = left.sum(axis=0)
        block = int(np.where(count > 0, count, len(left) + 1).argmin())
        chosen = np.flatnonzero(left[:, block])
        order += chosen.tolist()
        left[chosen] = False
    return order
