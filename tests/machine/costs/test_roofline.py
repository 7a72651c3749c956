"""The roofline: equal to exact fractions, number by number."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.costs import Costs, Roofline
from tests.by_hand import machine, three_ops
from tests.references.reference_costs import roofline
from tests.strategies import accelerators, programs_with_idle_ops
from tests.thorough import examples


@examples(200)
@given(programs_with_idle_ops(), accelerators())
def test_arrays_equal_the_reference(program, chip):
    costs, expected = Roofline().costs(program, chip), roofline(program, chip)
    for field in Costs._fields:
        assert np.array_equal(getattr(costs, field), getattr(expected, field)), field


def test_unsupported_dtypes_are_refused():
    with pytest.raises(WorkloadError, match=r"no float32 unit.*'int8'"):
        Roofline().costs(replace(three_ops(), dtype="float32"), machine())


def test_absurd_sizes_are_refused():
    with pytest.raises(WorkloadError, match="smaller dims"):
        Roofline().costs(replace(three_ops(), gemm=np.full((3, 4), 50_000)), machine())
