"""Tests of many cases fail if one does, and name it."""

import pytest

from tests.offenders import every, offenders


def test_a_case_that_fails_is_named():
    @every(("low", "high"), [(1, 2), (3, 3), (5, 4)])
    @every("sign", [1, 2])
    def test_order(low, high, sign):
        assert low * sign < high * sign, "out of order"

    with pytest.raises(AssertionError, match=r"\(3, 3\).*out of order(?s:.*)\(5, 4\).*out of order") as caught:
        test_order()
    assert "(1, 2)" not in str(caught.value)


def test_an_error_that_does_not_come_is_a_failure():
    def check(number):
        with pytest.raises(ZeroDivisionError):
            _ = 1 / number

    assert [line.split(":")[0] for line in offenders(check, [(0,), (1,)])] == ["(1,)"]
