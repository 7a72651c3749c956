"""Random examples are the same in every run of the suite, whichever tests a worker has run before."""

from hypothesis import find, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

import memplace_env._lib.files


def test_examples_hold_no_constants_of_imported_modules():
    find(st.integers(), lambda number: number > 10**6, settings=settings(max_examples=200, database=None))
    assert memplace_env._lib.files.__file__
    assert len(providers._get_local_constants()) == 0
