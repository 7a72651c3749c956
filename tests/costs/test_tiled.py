"""Tiled costs on Arm's Ethos-U: equal to a plain reference, and what tiling may and may not do."""

import numpy as np
from hypothesis import given, settings

from memplace_env.costs import Costs, Tiled
from memplace_env.testing.reference_tiled import tiled
from tests.costs.layers import ethos_u_chips, layered_programs


def same(costs, expected):
    for field in Costs._fields:
        assert np.array_equal(getattr(costs, field), getattr(expected, field)), field


@settings(max_examples=150)
@given(layered_programs(), ethos_u_chips())
def test_arrays_equal_the_reference(program, chip):
    same(Tiled().costs(program, chip), tiled(program, chip))
