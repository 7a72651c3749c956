"""The work of an operator of PyTorch, from the shapes of its operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

Shape = Sequence[int]

_PRODUCTS: Final = {"mm": 0, "bmm": 0, "linear": 0, "matmul": 0, "addmm": 1, "baddbmm": 1}
"""Position of the left operand of products of matrices; the right one follows."""
_MOVES: Final = {"alias", "cat", "clone", "embedding", "empty", "full", "index_select", "stack"}
"""Operators that compute nothing, besides those whose names end in "copy" or "copy_"."""


class Work(NamedTuple):
    """Matrix products (count, rows, depth, columns) and element operations, as of `ProgramBuilder.op`."""

    gemm: tuple[int, int, int, int] = (0, 0, 0, 0)
    vector_ops: int = 0


def work_of(operator: str, operands: Sequence[Shape], results: Sequence[Shape], options: Sequence[Any]) -> Work:
    """Return the work of an op.

    Args:
        operator: its name without namespace and overload, such as "convolution".
        operands: shapes of the tensors that it takes, in the order of its arguments.
        results: shapes of the tensors that it makes.
        options: its other arguments, in their order.
    """
    if operator == "convolution" and len(operands) > 1:
        # The last ones are transposed, output padding and groups.
        transposed, groups = bool(options[-3]), int(options[-1])
        (batch, _, *image), weight = (operands[0] if transposed else results[0]), operands[1]
        depth, columns = prod(weight[1:]), weight[0] // groups
        return Work((groups, batch * prod(image), *((columns, depth) if transposed else (depth, columns))))
    at = _PRODUCTS.get(operator)
    if at is not None and len(operands) > at + 1:
        left, right, elements = operands[at], operands[at + 1], prod(results[0])
        columns = results[0][-1] if len(right) > 1 else 1
        count = prod(right[:-2])
        return Work((count, elements // max(count * columns, 1), left[-1], columns))
    if operator in _MOVES or operator.endswith(("copy", "copy_")):
        return Work()
    return Work(vector_ops=max(map(prod, [*operands, *results]), default=0))
