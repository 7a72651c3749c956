"""Tiled costs on Arm's Ethos-U of ops that its compiler replaces, as the unit cannot do them as they stand."""

from dataclasses import replace

import numpy as np
import pytest

from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import Tiled
from tests.machine.costs.layers import CHIPS, layer
from tests.offenders import every


def costs_of_layer(op_type, name, **shape):
    return Tiled().costs(layer(op_type, **shape), load_accelerator(name))


def immediate(level):
    """The memory without the time that it takes."""
    access = replace(level.access, read_latency_ps=0, write_latency_ps=0)
    return replace(level, access=access, latency_ps=0, read_bytes_per_s=2**62, write_bytes_per_s=2**62)


@every("name", CHIPS)
@every("op_type", ["Conv", "DepthwiseConv"])
@every(("dilation", "kernel"), [(1, (3, 2)), (2, (3, 2)), (3, (7, 4)), (4, (5, 3)), (6, (7, 4))])
def test_dilated_windows_take_as_long_as_windows_with_zeros(op_type, name, dilation, kernel):
    """The unit skips one pixel itself; larger distances are larger windows, of as many bytes of weights as before."""
    shape = {"height": 12, "width": 12, "channels": 96, "depth": 48}
    dilated = costs_of_layer(op_type, name, **shape, kernel=(3, 2), dilation=dilation)
    filled = costs_of_layer(op_type, name, **shape, kernel=kernel)
    assert np.array_equal(dilated.compute_ps, filled.compute_ps)
    assert np.array_equal(np.delete(dilated.use_pj, 1, 0), np.delete(filled.use_pj, 1, 0))  # all but weights


@every("name", CHIPS)
@every("op_type", ["Conv", "MaxPool"])
def test_windows_more_than_three_apart_are_an_op_for_each_result(op_type, name):
    """Results multiply the cycles, the input and the weights that are read.

    That is so where no weights are waited for, which a single op has no other before it to do.
    """
    shape = {"channels": 96, "depth": 64, "kernel": (4, 4), "stride": (4, 4), "bias": False}
    chip = load_accelerator(name)
    chip = replace(chip, levels=(chip.levels[0], immediate(chip.levels[1])))
    one, many = (Tiled().costs(layer(op_type, **shape, height=side, width=side), chip) for side in (1, 7))
    assert many.compute_ps[0] == pytest.approx(49 * one.compute_ps[0], abs=49)
    assert many.use_pj[:-1, -1] == pytest.approx(49 * one.use_pj[:-1, -1])
    assert not many.reserved_bytes.any()


@every("name", CHIPS)
@every(("kernel", "stride", "dilation"), [(3, 3, 1), (5, 4, 1), (2, 4, 2)])
def test_windows_that_are_near_or_leave_the_input_or_dilated_stay_one_op(name, kernel, stride, dilation):
    shape = {"height": 8, "width": 8, "channels": 64, "depth": 64, "kernel": (kernel, kernel)}
    weights = load_accelerator(name).levels[-1].pj_per_byte * kernel**2 * 64 * 64
    reads = costs_of_layer("Conv", name, **shape, stride=(stride, stride), dilation=dilation).use_pj[1, -1] / weights
    assert reads == 1  # staged, if need be


def test_each_group_of_a_convolution_waits_for_its_weights():
    """Weights of 16 x 16 channels are 256 bytes: half a microsecond of latency and 68 ns at 3.75 GB/s for each."""
    shape = {"height": 4, "width": 4, "channels": 16 * 20, "depth": 16 * 20}
    grouped = costs_of_layer("Conv", "ethos-u65", **shape, groups=20)
    assert grouped.compute_ps[0] == 20 * 500_000 + -(-20 * 256 * 10**12 // 3_750_000_000)


def test_groups_wait_as_long_as_requests_take():
    """On the U85 256 words of 16 bytes are under way: 0.8 of 4,096 bytes in 500 ns, of which the weights take 6,250."""
    shape = {"height": 4, "width": 4, "channels": 200 * 20, "depth": 200 * 20}
    grouped = costs_of_layer("Conv", "ethos-u85-2048", **shape, groups=20)
    assert grouped.compute_ps[0] == pytest.approx(20 * (500_000 + 200 * 200 * 500_000 / (0.8 * 4096)), rel=1e-6)


def test_the_first_input_comes_before_and_the_last_result_goes_after():
    """A map in one block waits 32 ns each way, and 16 ns each for 256 bytes at 16 GB/s, beside its multiplying."""
    program, chip = layer("Conv", height=4, width=4, channels=16, depth=16), load_accelerator("ethos-u65")
    fast, slow = chip.levels
    one, other = (Tiled().costs(program, replace(chip, levels=(first, slow))) for first in (immediate(fast), fast))
    assert other.compute_ps[0] - one.compute_ps[0] == pytest.approx(2 * (32_000 + 16_000), abs=1)


@every(("name", "bursts"), [("ethos-u65-256", (2, 8)), ("ethos-u65-512", (1, 4))])
def test_transposes_are_copies_in_plain_order_on_the_u65(name, bursts):
    """All bytes are read once, and written 16 at a time by each core, of a burst of 32 or of 128; all else is free."""
    chip, size = load_accelerator(name), 6 * 5 * 7
    costs = costs_of_layer("Transpose", name, height=6, width=5, channels=7, bias=False)
    for level, (memory, times) in enumerate(zip(chip.levels, bursts, strict=True)):
        moved_ps = [-(-size * count * 10**12 // memory.read_bytes_per_s) for count in (1, times)]
        assert costs.use_ps[:, level].tolist() == moved_ps
    assert costs.compute_ps[0] == 0


@every("name", ["ethos-u65-256", "ethos-u65-512"])
def test_products_of_two_feature_maps_are_made_element_by_element_on_the_u65(name):
    """3 of 10 x 24 by 24 x 7: for each of 7 columns 10 x 24 products, of 32 channels, in 5/8 cycles, 5/16 with two
    cores; the first map is read for each column, the second once, and nothing is staged."""
    chip = load_accelerator(name)
    costs = costs_of_layer("MatMul", name, batch=3, height=2, width=5, channels=24, depth=7, bias=False)
    assert costs.compute_ps[0] == 3 * 7 * 10 * 32 * 625 // chip.tiling.cores
    first, second = -(-7 * 3 * 10 * 24 * 32 // 24), 3 * 24 * 7  # bursts of 32 bytes, runs of 24
    assert costs.use_ps[:2, 0].tolist() == [
        -(-size * 10**12 // chip.levels[0].read_bytes_per_s) for size in (first, second)
    ]
    assert not costs.reserved_bytes.any()


@every("name", CHIPS)
def test_constants_of_element_wise_ops_are_read_in_runs_of_a_block_s_channels(name):
    """A pixel of 16 channels is 16 bytes of a burst of 128 from DRAM; the constant is as large as the result here."""
    chip = load_accelerator(name)
    costs = costs_of_layer("Add", name, height=2, width=2, channels=16)
    assert costs.use_pj[1, 1] == 2 * 2 * 16 * 128 // 16 * chip.levels[1].pj_per_byte
