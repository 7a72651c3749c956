"""Tiling on units of many engines."""

from dataclasses import replace
from itertools import product as cartesian
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.accelerator.tiling_description import Engines
from memplace_env.machine.costs import Roofline
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.machine.costs.tiled.engines import Product, best_split, shares_of, split_in, tile_engines
from memplace_env.placement.workloads import resolve_workload
from tests.machine.costs.products import one_product
from tests.strategies import accelerators, programs_with_idle_ops

SMALL = st.integers(1, 9)
PRODUCTS = st.builds(Product, *[SMALL] * 4, window=st.just(1), input_bytes=SMALL, weight_bytes=SMALL)
BOXES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
UNITS = st.builds(Engines, engines=st.integers(1, 12), grid=BOXES, loads=st.sampled_from(["hidden", "exposed"]))


def with_engines(chip: Accelerator, unit: Engines) -> Accelerator:
    return replace(chip, systolic=None, tiling=unit)


@given(st.integers(1, 16))
def test_shares_are_all_factorisations(engines: int) -> None:
    wanted = [shares for shares in cartesian(range(1, engines + 1), repeat=3) if np.prod(shares) == engines]
    assert sorted(shares_of(engines)) == wanted


@given(PRODUCTS, st.tuples(SMALL, SMALL, SMALL), BOXES)
def test_cycles_are_those_of_the_busiest_engine(product, shares, grid):
    """Brute force: every engine walks its share grid by grid."""

    def share(size, parts):
        return len(range(0, size, parts))  # the largest of `parts` shares that are dealt out in turn

    products, pixels, channels = map(share, product[:3], shares)
    cycles = 0
    for _ in range(products):
        for _ in range(0, pixels, grid[0]):
            for _ in range(0, channels, grid[1]):
                cycles += ceil(product.depth / grid[2])
    assert split_in(product, shares, grid).cycles == cycles


@given(PRODUCTS, st.integers(1, 12), BOXES)
def test_the_best_split_has_fewest_cycles_then_fewest_bytes(product, engines, grid):
    best = best_split(product, engines, grid)
    moved = best.pixels * product.weight_bytes + best.channels * product.input_bytes
    for shares in shares_of(engines):
        other = split_in(product, shares, grid)
        bytes_of_other = other.pixels * product.weight_bytes + other.channels * product.input_bytes
        assert (best.cycles, moved) <= (other.cycles, bytes_of_other)


@given(programs_with_idle_ops(), accelerators(), UNITS)
def test_never_faster_than_the_roofline(program, chip, unit):
    chip = with_engines(chip, unit)
    tiled, ideal = Tiled().costs(program, chip), Roofline().costs(program, chip)
    assert (tiled.compute_ps + tiled.overhead_ps >= ideal.compute_ps + ideal.overhead_ps).all()
    assert (tiled.use_ps >= ideal.use_ps).all()
    assert (tiled.use_pj >= ideal.use_pj).all()
    assert (tiled.use_ps[:, -1] == ideal.use_ps[:, -1]).all(), "the backing memory is read once"


@given(BOXES, st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
def test_a_product_that_fills_one_engine_takes_what_the_roofline_says(grid, pixels, channels, depth):
    chip = with_engines(load_accelerator("nnp-i"), Engines(1, grid, "hidden"))
    program = one_product(grid[0] * pixels, grid[2] * depth, grid[1] * channels)
    for actual, ideal in zip(Tiled().costs(program, chip), Roofline().costs(program, chip), strict=True):
        assert np.array_equal(actual, ideal)


@given(BOXES, st.integers(1, 12), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_many_engines_that_are_full_compute_as_fast_as_the_roofline(grid, engines, pixels, channels, depth):
    chip = with_engines(load_accelerator("nnp-i"), Engines(engines, grid, "hidden"))
    program = one_product(engines * grid[0] * pixels, grid[2] * depth, grid[1] * channels)
    assert Tiled().costs(program, chip).compute_ps == Roofline().costs(program, chip).compute_ps


def test_exposed_loads_add_to_compute():
    program = resolve_workload("MobileNetV2", dtype="int8")
    chip = load_accelerator("nnp-i")
    assert isinstance(chip.tiling, Engines)
    exposed = Tiled().costs(program, chip)
    hidden = Tiled().costs(program, replace(chip, tiling=replace(chip.tiling, loads="hidden")))
    assert not exposed.compute_ps.any()
    assert np.array_equal(exposed.overhead_ps, hidden.compute_ps + hidden.overhead_ps)
    assert np.array_equal(exposed.use_ps, hidden.use_ps)


def test_depthwise_convolutions_fill_one_element_of_the_depth():
    program = resolve_workload("MobileNetV2", dtype="int8")
    chip = load_accelerator("intel-npu-4000")
    alone = program.gemm[:, 0] > 1
    (tiling,) = tile_engines(program, chip)
    slots = tiling.compute_ps[alone] / 1e12 * chip.matrix_macs_per_s["int8"]
    assert (slots >= 8 * program.macs[alone]).all()


@pytest.mark.parametrize("chip", ["nnp-i", "intel-npu-4000"])
def test_the_same_program_costs_the_same(chip):
    program = resolve_workload("ResNet50", dtype="int8")
    first, second = (Tiled().costs(program, load_accelerator(chip)) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
