"""Tolerances of results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from memplace_env.backends.ort.execution_result import ROUNDING, TOLERANCE, nearly_same


@given(st.sampled_from([TOLERANCE, *ROUNDING.values()]), st.floats(0.01, 100), st.integers(0, 7))
def test_a_share_of_the_largest_number(tolerance, size, at):
    expected = np.linspace(-size, size / 2, 8)
    for off, near in ((0.9, True), (1.1, False), (np.nan, False)):
        found = expected.copy()
        found[at] += off * tolerance * size
        assert nearly_same(found, expected, tolerance) is near


@pytest.mark.parametrize(
    ("kind", "by_one"),
    [(np.int8, True), (np.uint8, True), (np.int16, False), (np.int64, False), (np.float16, False)],
)
def test_integers_of_a_byte_may_be_off_by_one(kind, by_one):
    expected = np.array([0, 1, 100]).astype(kind)
    assert nearly_same(expected, expected, 0.0)
    assert nearly_same(expected + kind(1), expected, TOLERANCE) is by_one
    assert not nearly_same(expected + kind(2), expected, TOLERANCE)


def test_what_is_not_finite_must_be_the_same():
    for kind in map(helper.tensor_dtype_to_np_dtype, (TensorProto.FLOAT16, TensorProto.BFLOAT16)):
        expected = np.array([1, np.inf, -np.inf]).astype(kind)
        assert nearly_same(expected, expected, 0.5)
        assert not nearly_same(np.array([1, np.inf, 2]).astype(kind), expected, 0.5)
    assert not nearly_same(np.array([True]), np.array([False]), 2.0)
