"""Tiled costs on Arm's Ethos-U of ops that its compiler replaces, as the unit cannot do them as they stand."""

import numpy as np
import pytest

from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import Tiled
from tests.machine.costs.layers import CHIPS, layer


def costs_of_layer(op_type, name, **shape):
    return Tiled().costs(layer(op_type, **shape), load_accelerator(name))


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("op_type", ["Conv", "DepthwiseConv"])
@pytest.mark.parametrize(("dilation", "kernel"), [(1, (3, 2)), (2, (3, 2)), (3, (7, 4)), (4, (5, 3)), (6, (7, 4))])
def test_dilated_windows_take_as_long_as_windows_with_zeros(op_type, name, dilation, kernel):
    """The unit skips one pixel itself; larger distances are larger windows, of as many bytes of weights as before."""
    shape = {"height": 12, "width": 12, "channels": 96, "depth": 48}
    dilated = costs_of_layer(op_type, name, **shape, kernel=(3, 2), dilation=dilation)
    filled = costs_of_layer(op_type, name, **shape, kernel=kernel)
    assert np.array_equal(dilated.compute_ps, filled.compute_ps)
    assert np.array_equal(np.delete(dilated.use_pj, 1, 0), np.delete(filled.use_pj, 1, 0))  # all but weights
