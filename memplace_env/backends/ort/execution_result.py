"""The result of executing a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from memplace_env.backends.ort.plan_steps import CopyMoment

TOLERANCE: Final = 1e-5
"""Largest difference, as a fraction of a result's largest number, of an op whose data are not at multiples of
`EXACT_ALIGNMENT` bytes: some kernels add up in another order there. Our choice."""

ROUNDING: Final = {TensorProto.FLOAT16: 2**-7, TensorProto.BFLOAT16: 2**-4}
"""The same for an op with values of such an ONNX type, at any address: ONNX Runtime computes most of them in float32,
and rounds a value between two ops to that type only if the ops run separately. Our choice."""

EXACT_ALIGNMENT: Final = 16
"""Bytes; kernels compute the same bits from the same operands at all multiples of it."""


class ResultDifference(NamedTuple):
    """A value that differs from the plain run's.

    Attributes:
        inference: number of the inference, from 0.
        op: the op that read or computed it, or before which its copy may begin; T for a graph output, or a resident
            weight, at the end.
        value: its name.
        why: reason, as text.
    """

    inference: int
    op: int
    value: str
    why: str


@dataclass(frozen=True)
class Execution:
    """The result of executing a plan.

    Attributes:
        copies: moment of copies.
        inferences: number of inferences.
        ops: number of runs of ops.
        bit_equal: number of these whose results all equalled the plain run's bit for bit.
        within_tolerance: number of these whose results did not, but kept to `TOLERANCE` at addresses where it applies,
            or to `ROUNDING`. The plain results then replaced them, so that differences do not grow with depth.
        first_difference: the first wrong operand or result, copy of wrong bytes, or overwritten resident weight; None
            if there is none.
        wrong_outputs: graph outputs that were wrong at the end of an inference, with the first such inference.
        seconds: seconds of each inference: ops, their slices put together and apart, copies and poison, without the
            comparisons.
    """

    copies: CopyMoment
    inferences: int
    ops: int
    bit_equal: int
    within_tolerance: int
    first_difference: ResultDifference | None
    wrong_outputs: Mapping[str, int]
    seconds: tuple[float, ...]

    @property
    def right(self) -> bool:
        """True if all operands, results and outputs equalled the plain run's, within the tolerances."""
        return self.first_difference is None and not self.wrong_outputs


def same_bits(computed: NDArray[np.uint8], expected: NDArray[np.uint8]) -> bool:
    """Return whether two byte arrays are equal."""
    if len(computed) % 8 == 0 and computed.ctypes.data % 8 == 0 and expected.ctypes.data % 8 == 0:
        return bool(np.array_equal(computed.view(np.uint64), expected.view(np.uint64)))
    return bool(np.array_equal(computed, expected))


def nearly_same(computed: NDArray[Any], expected: NDArray[Any], tolerance: float = TOLERANCE) -> bool:
    """Return whether two arrays differ by at most a fraction of the largest expected number.

    Integers of a byte, which are quantised numbers, may be off by one, other integers and booleans not at all.
    """
    if expected.dtype.kind == "b" or (expected.dtype.kind in "iu" and expected.dtype.itemsize > 1):
        return bool(np.array_equal(computed, expected))
    a, b = computed.astype(np.float64), expected.astype(np.float64)
    if expected.dtype.kind in "iu":
        return bool((np.abs(a - b) <= 1).all())
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    most = np.abs(b[finite]).max(initial=0.0)
    return bool((np.abs(a[finite] - b[finite]) <= tolerance * most).all())
