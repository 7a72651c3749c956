"""Tiled costs on Arm's Ethos-U: equal to a plain reference, and what tiling may and may not do."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import CostError
from memplace_env.machine.accelerator import accelerator_names, load_accelerator
from memplace_env.machine.costs import Costs, Roofline, Tiled, costs_of
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.builder import ProgramBuilder
from memplace_env.testing import check_cost_model
from tests.machine.costs.layers import CHIPS, PRODUCTS, add_layer, ethos_u_chips, layer, layered_programs
from tests.references.reference_tiled import tiled
from tests.strategies import programs_with_idle_ops
from tests.thorough import examples

TILED = [name for name in accelerator_names() if load_accelerator(name).tiling is not None]
any_programs = layered_programs() | programs_with_idle_ops(4)


def with_fast_memory(chip, capacity):
    return replace(chip, levels=(replace(chip.levels[0], capacity_bytes=capacity), *chip.levels[1:]))


def assert_equal_to_the_reference(program, chip):
    costs, expected = Tiled().costs(program, chip), tiled(program, chip)
    for field in Costs._fields:
        assert np.array_equal(getattr(costs, field), getattr(expected, field)), field


@examples(20)
@given(any_programs, ethos_u_chips())
def test_arrays_equal_the_reference(program, chip):
    assert_equal_to_the_reference(program, chip)


@pytest.mark.slow
@examples(120)
@given(any_programs, ethos_u_chips())
def test_arrays_of_many_programs_equal_the_reference(program, chip):
    assert_equal_to_the_reference(program, chip)


# Never less than the roofline


def assert_never_less(program, chip):
    costs, ideal = costs_of(Tiled(), program, chip), Roofline().costs(program, chip)
    for field in ("overhead_ps", "use_ps", "use_pj"):
        assert (getattr(costs, field) >= getattr(ideal, field)).all(), field
    assert (costs.compute_ps + costs.overhead_ps >= ideal.compute_ps + ideal.overhead_ps).all()  # either, see `Tiled`
    assert (costs.compute_pj >= ideal.compute_pj).all()
    for field in ("latency_ps", "prefetch_ps", "writeback_ps", "copy_pj", "serial"):
        assert np.array_equal(getattr(costs, field), getattr(ideal, field)), field
    assert (costs.reserved_bytes >= 0).all()
    assert (costs.reserved_bytes[:, 0] <= chip.levels[0].capacity_bytes).all()
    assert not costs.reserved_bytes[:, 1:].any()


@examples(30)
@given(any_programs, ethos_u_chips() | st.sampled_from(TILED).map(load_accelerator))
def test_never_less_than_the_roofline(program, chip):
    assert_never_less(replace(program, dtype=chip.dtype), chip)


@pytest.mark.parametrize(
    ("workload", "name"), [("BERT", "ethos-u65-256"), ("BERT", "ethos-u85-2048"), *(("MobileNetV2", x) for x in TILED)]
)
def test_networks_take_never_less_than_the_roofline(workload, name):
    chip = load_accelerator(name)
    assert_never_less(resolve_workload(workload, dtype=chip.dtype, fusion=chip.fusion), chip)


# Equal to it where nothing is lost


def full_layer(slices):
    """An 8 x 8 x 64 result of a 1 x 1 convolution: it fills all units and fits them, and so do bursts of its rows.

    No input is read twice, as windows do not overlap; there are no scales; its input has been made by the unit.
    """
    builder = ProgramBuilder("full", "int8")
    channels = 64 * slices
    source = add_layer(builder, "Sigmoid", height=8, width=8, channels=channels, bias=False, last=False)
    add_layer(builder, "Conv", source=source, height=8, width=8, channels=channels, depth=64, bias=False)
    return builder.build()


@pytest.mark.parametrize("name", CHIPS)
@examples(10)
@given(slices=st.integers(4, 20))
def test_equal_to_the_roofline_where_nothing_is_lost(name, slices):
    """On a chip that writes results and moves its first and last block at no cost, and requests as much as memories
    can give."""
    stock, program = load_accelerator(name), full_layer(slices)
    unit = replace(stock.tiling, output_cycles=replace(stock.tiling.output_cycles, plain=Fraction(0)), request_words=())
    access = replace(stock.levels[0].access, read_latency_ps=0, write_latency_ps=0)
    fast = replace(stock.levels[0], access=access, read_bytes_per_s=2**62, write_bytes_per_s=2**62)
    chip, conv = replace(stock, tiling=unit, levels=(fast, *stock.levels[1:])), program.use_ptr[1]
    costs, ideal = Tiled().costs(program, chip), Roofline().costs(program, chip)
    assert costs.compute_ps[1] - ideal.compute_ps[1] in (0, 1)  # a part of a picosecond for the edges
    assert (costs.use_ps[conv:] == ideal.use_ps[conv:]).all()
    assert (costs.use_pj[conv:] == ideal.use_pj[conv:]).all()
    assert not costs.reserved_bytes.any()


@pytest.mark.parametrize("name", CHIPS)
@examples(10)
@given(slices=st.integers(4, 20))
def test_what_a_full_layer_loses_is_the_edges_of_its_blocks(name, slices):
    """The first input comes before all is computed, and the last results leave after; what it moves is the same."""
    chip, program = load_accelerator(name), full_layer(slices)
    costs, ideal = Tiled().costs(program, chip), Roofline().costs(program, chip)
    fast = chip.levels[0]
    end = chip.tiling.output_cycles.plain * 8 * 8 * 64 * 10**12 / chip.tiling.clock_hz
    end += fast.access.read_latency_ps + fast.access.write_latency_ps + 2 * 8 * 8 * 64 * 10**12 / fast.read_bytes_per_s
    assert 0 <= costs.compute_ps[1] - ideal.compute_ps[1] <= end
    assert (costs.use_pj[program.use_ptr[1] :] == ideal.use_pj[program.use_ptr[1] :]).all()


# The contract


@pytest.mark.parametrize("name", CHIPS)
def test_keeps_the_contract_of_a_cost_model(name):
    chip = load_accelerator(name)
    check_cost_model("tiled", accelerator=chip)
    check_cost_model("tiled", layer("Conv", height=9, width=9, channels=70, depth=50, kernel=(3, 3)), chip)


def test_chips_without_tiling_are_refused_by_name():
    chip = replace(load_accelerator(CHIPS[0]), tiling=None)
    with pytest.raises(CostError, match=r"'ethos-u65' does not describe how its unit tiles: add a table \[tiling\]"):
        Tiled().costs(layer("Conv"), chip)


@pytest.mark.parametrize("op_type", [op_type for op_type in PRODUCTS if op_type != "MatMul"])
def test_weights_read_again_are_kept_in_fast_memory_if_an_eighth_of_it_holds_them(op_type):
    program = layer(op_type, height=64, width=64, channels=64, depth=64, kernel=(3, 3))
    chip, size = load_accelerator("ethos-u65-256"), int(program.use_bytes[1])
    reserved = [
        int(Tiled().costs(program, with_fast_memory(chip, capacity)).reserved_bytes[0, 0]) for capacity in (8 * size, 1)
    ]
    assert reserved == [size, 0]
