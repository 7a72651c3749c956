"""Tiling on systolic arrays, and the closed forms of their cycles."""

from dataclasses import replace
from itertools import product as cartesian

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import CostError
from memplace_env.machine.accelerator import Systolic, load_accelerator
from memplace_env.machine.accelerator.tiling_description import LocalMemory
from memplace_env.machine.costs import Roofline, op_times
from memplace_env.machine.costs.roofline import scale_sim_cycles
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.machine.costs.tiled.systolic import array_cycles, fewest_reads
from memplace_env.program.program import Ints
from tests.by_hand import machine
from tests.machine.costs.products import one_product
from tests.strategies import accelerators, programs_with_idle_ops

SIZES = st.integers(1, 40)
UNITS = st.builds(
    Systolic,
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    arrays=st.integers(1, 4),
    clock_hz=st.just(10**9),
    fill=st.sampled_from(["hidden", "exposed"]),
)
UNIT = Systolic(4, 4, 2, 10**9, "hidden")


def op_ps(costs) -> list[Ints]:
    """Times of all ops, everything at one level, for each level."""
    ops, levels = costs.reserved_bytes.shape
    return [
        op_times(costs, np.tile(costs.use_ps.sum(axis=0) * (np.arange(levels) == level), (ops, 1))).op_ps
        for level in range(levels)
    ]


def test_scale_sim_closed_forms_on_tiny_arrays_by_walking_the_folds():
    for pixels, depth, channels, rows, columns in cartesian((1, 3), (1, 4, 5), (1, 2, 7), (1, 2, 4), (1, 3)):
        folds = sum(1 for _ in range(0, depth, rows) for _ in range(0, channels, columns))
        load, skew = rows, (rows - 1) + (columns - 1)
        wanted = folds * (load + pixels + skew) - 1
        assert scale_sim_cycles((pixels, depth, channels), (rows, columns), "weights") == wanted
        folds = sum(1 for _ in range(0, pixels, rows) for _ in range(0, channels, columns))
        assert scale_sim_cycles((pixels, depth, channels), (rows, columns), "outputs") == folds * (depth + skew) - 1


@given(st.integers(1, 3), SIZES, SIZES, SIZES, UNITS)
def test_array_cycles_by_dealing_out_the_pieces(count, pixels, depth, channels, unit):
    folds = [None for _ in range(count) for _ in range(0, depth, unit.rows) for _ in range(0, channels, unit.columns)]

    def busiest(pieces):
        rows = len(range(0, pixels, pieces))
        per_piece = max(rows, unit.rows) if unit.fill == "hidden" else rows + 2 * unit.rows + unit.columns - 2
        return per_piece * len(range(0, len(folds) * pieces, unit.arrays))

    actual = array_cycles(np.array([[count, pixels, depth, channels]]), unit)[0]
    assert min(map(busiest, range(1, unit.arrays + 1))) <= actual <= min(busiest(1), busiest(unit.arrays))


@given(st.integers(1, 3), st.integers(1, 60), st.integers(1, 60), st.integers(1, 50))
def test_reads_are_those_of_the_better_order(count, inputs, weights, local_bytes):
    kept = max(1, local_bytes // 2)

    def slices(operand):
        return len(range(0, -(-operand // count), kept))

    reads = fewest_reads(np.array([inputs]), np.array([weights]), np.array([count]), local_bytes)
    moved = inputs * reads.inputs[0] + weights * reads.weights[0]
    assert min(reads.inputs[0], reads.weights[0]) == 1
    assert moved == min(inputs * slices(weights) + weights, inputs + weights * slices(inputs))


@given(programs_with_idle_ops(), accelerators(), UNITS, st.integers(1, 2000), st.integers(0, 2000))
def test_never_faster_than_the_roofline_and_more_memory_never_slower(program, chip, unit, local_bytes, more):
    chip = replace(chip, systolic=unit, tiling=LocalMemory(local_bytes))
    ideal, tiled = Roofline().costs(program, chip), Tiled().costs(program, chip)
    larger = Tiled().costs(program, replace(chip, tiling=LocalMemory(local_bytes + more)))
    for slow, fast in ((tiled, larger), (larger, ideal)):
        assert (slow.compute_ps >= fast.compute_ps).all()
        assert (slow.use_pj.sum(axis=0) >= fast.use_pj.sum(axis=0) - program.num_uses).all(), "but for rounding"
    assert (tiled.use_ps >= ideal.use_ps).all()
    for slow, fast in zip(op_ps(tiled), op_ps(ideal), strict=True):
        assert (slow >= fast).all()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.integers(1, 400), st.integers(0, 400))
def test_a_product_is_never_slower_with_more_local_memory(pixels, depth, channels, local_bytes, more):
    program, sizes = one_product(pixels, depth, channels), (local_bytes, local_bytes + more)
    small, large = (op_ps(Tiled().costs(program, machine(systolic=UNIT, tiling=LocalMemory(size)))) for size in sizes)
    assert all((one >= other).all() for one, other in zip(small, large, strict=True))


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_equal_to_the_roofline_where_all_fits_and_the_arrays_are_full(pixels, depth, channels):
    chip = replace(load_accelerator("tpu-v4i"), systolic=UNIT, tiling=LocalMemory(10**6))
    program = one_product(8 * pixels, 4 * depth, 4 * channels)
    for actual, ideal in zip(Tiled().costs(program, chip), Roofline().costs(program, chip), strict=True):
        assert np.array_equal(actual, ideal)


def test_operands_larger_than_the_local_memory_are_read_again():
    program, chip = one_product(4096, 8192, 8192), load_accelerator("tpu-v4i")  # 32 and 64 MiB; 8 MiB stay
    tiled, ideal = Tiled().costs(program, chip), Roofline().costs(program, chip)
    more = tiled.use_pj / ideal.use_pj
    assert more[:, 1].tolist() == [1, 4, 1], "4 slices of the inputs, for each all weights"


def test_a_chip_without_arrays_is_refused():
    chip = replace(load_accelerator("nnp-i"), tiling=LocalMemory(1000))
    with pytest.raises(CostError, match=r"describes none: add a table \[compute.systolic\]"):
        Tiled().costs(one_product(1, 1, 1), chip)
