"""What came of executing a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from memplace_env.execution.schedule import Copies

TOLERANCE: Final = 1e-5
"""How far, as a share of the largest number of a result, an op may be off whose data do not lie at multiples of
`EXACT_ALIGNMENT` bytes: some kernels add up in another order there."""

ROUNDING: Final = {TensorProto.FLOAT16: 2**-7, TensorProto.BFLOAT16: 2**-4}
"""The same for an op that has to do with numbers of such an ONNX type, wherever its data lie: ONNX Runtime computes
most of them in float32, and rounds a value between two ops to that type only if the ops run each by itself."""

EXACT_ALIGNMENT: Final = 16
"""Bytes; kernels compute the same bits of the same operands at all multiples of it."""


class Difference(NamedTuple):
    """A value that is not what the plain run says.

    Attributes:
        inference: in which it was found, from 0.
        op: that read or made it, or before which its copy may begin; T for a graph output, or a weight that was to
            stay, at the end.
        value: its name.
        why: in words.
    """

    inference: int
    op: int
    value: str
    why: str


@dataclass(frozen=True)
class Execution:
    """A plan, executed.

    Attributes:
        copies: when copies were made.
        inferences: how many, one after the other.
        ops: how often an op ran.
        bit_equal: how often all its results equalled the plain run's bit for bit.
        within_tolerance: how often they did not, but kept to `TOLERANCE` at addresses where it is allowed, or to
            `ROUNDING`. The plain results were then put in their place: what is allowed does not grow with depth.
        first_difference: the first wrong operand or result, copy of other bytes than the plain run has, or weight that
            did not stay; None if there is none.
        wrong_outputs: the graph outputs that were wrong at the end of an inference, and the first such inference.
        seconds: of each inference: ops, copies and poison, without comparing.
    """

    copies: Copies
    inferences: int
    ops: int
    bit_equal: int
    within_tolerance: int
    first_difference: Difference | None
    wrong_outputs: Mapping[str, int]
    seconds: tuple[float, ...]

    @property
    def right(self) -> bool:
        """Whether every operand was what the plain run says, and every result and output, but for what is allowed."""
        return self.first_difference is None and not self.wrong_outputs


def same_bits(found: NDArray[np.uint8], expected: NDArray[np.uint8]) -> bool:
    """Whether two runs of bytes are the same."""
    if len(found) % 8 == 0 and found.ctypes.data % 8 == 0 and expected.ctypes.data % 8 == 0:
        return bool(np.array_equal(found.view(np.uint64), expected.view(np.uint64)))
    return bool(np.array_equal(found, expected))


def nearly_same(found: NDArray[Any], expected: NDArray[Any], tolerance: float = TOLERANCE) -> bool:
    """Whether two arrays agree within that share of the largest number expected.

    Integers of a byte, which are quantised numbers, may be off by one, others and truth values not at all.
    """
    if expected.dtype.kind == "b" or (expected.dtype.kind in "iu" and expected.dtype.itemsize > 1):
        return bool(np.array_equal(found, expected))
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if expected.dtype.kind in "iu":
        return bool((np.abs(a - b) <= 1).all())
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    most = np.abs(b[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= tolerance * most).all())
