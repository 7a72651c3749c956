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


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("op_type", ["Conv", "MaxPool"])
def test_windows_more_than_three_apart_are_an_op_for_each_result(op_type, name):
    """Results multiply the cycles, the input and the weights that are read."""
    shape = {"channels": 96, "depth": 64, "kernel": (4, 4), "stride": (4, 4), "bias": False}
    one, many = (costs_of_layer(op_type, name, **shape, height=side, width=side) for side in (1, 7))
    assert many.compute_ps[0] == pytest.approx(49 * one.compute_ps[0], abs=49)
    assert many.use_pj[:-1, -1] == pytest.approx(49 * one.use_pj[:-1, -1])
    assert not many.reserved_bytes.any()


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(3, 3, 1), (5, 4, 1), (2, 4, 2)])
def test_windows_that_are_near_or_leave_the_input_or_dilated_stay_one_op(name, kernel, stride, dilation):
    shape = {"height": 8, "width": 8, "channels": 64, "depth": 64, "kernel": (kernel, kernel)}
    weights = load_accelerator(name).levels[-1].pj_per_byte * kernel**2 * 64 * 64
    reads = costs_of_layer("Conv", name, **shape, stride=(stride, stride), dilation=dilation).use_pj[1, -1] / weights
    assert reads == 1  # staged, if need be
