"""Tiled costs of absurd layers: a number or a clear refusal, never a crash, a wrong sign or a full memory."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import Roofline, Tiled, costs_of
from memplace_env.machine.costs.tiled.ethos_u_blocks import Layer, least_traffic, microblock
from memplace_env.machine.costs.tiled.nest import Kind
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.machine.costs.layers import layer
from tests.offenders import every

TYPES = ("Conv", "DepthwiseConv", "MatMul", "MaxPool", "GlobalAveragePool", "Add")
MOST = 2**31 - 1
PAIR = [load_accelerator(name) for name in ("ethos-u65-512", "ethos-u85-2048")]


def assert_sound(program, chip):
    costs, ideal = costs_of(Tiled(), program, chip), Roofline().costs(program, chip)
    for field in ("compute_ps", "use_ps", "use_pj"):
        assert (getattr(costs, field) >= getattr(ideal, field)).all(), field


@every("chip", PAIR)
@every("op_type", TYPES)
@every(
    "shape",
    [
        {},
        {"channels": 3, "depth": 5, "kernel": (40, 30)},
        {"batch": 1000, "height": 7, "width": 5, "channels": 17, "depth": 33},
        {"width": MOST},
        {"height": MOST},
        {"channels": MOST, "depth": 1},
        {"channels": 2, "depth": MOST},
        {"kernel": (2**15, 2**16)},
        {"stride": (MOST, 3), "height": 3, "kernel": (9, 1)},
    ],
)
def test_odd_layers_have_costs(op_type, shape, chip):
    assert_sound(layer(op_type, **shape), chip)


@every("chip", PAIR)
@every("op_type", TYPES)
@every(
    "shape",
    [
        {"height": MOST, "width": 4001, "channels": 3, "depth": 7},
        {"height": 2**25, "width": 2**25},
        {"channels": MOST, "depth": 2**24},
        {"stride": (2**28, 2**28), "channels": 5},
    ],
)
def test_layers_beyond_counting_are_refused_or_have_costs(op_type, shape, chip):
    with suppress(WorkloadError):
        assert_sound(layer(op_type, **shape), chip)


def reread(stride):
    """One-byte tensors whose geometry differs."""
    builder = ProgramBuilder("absurd", "int8")
    x, w = builder.tensor("x", 2**20, TensorKind.INPUT), builder.tensor("w", 1, TensorKind.WEIGHT)
    sides = dict.fromkeys(("ofm_x", "ofm_y", "ofm_z"), 2**31)
    geometry = {**sides, "ifm_x": 1, "ifm_y": 1, "kernel_x": 1, "kernel_y": 1, "stride": stride, "stride_y": stride}
    builder.op("MaxPool", [x, w], [builder.tensor("y", 1, TensorKind.OUTPUT)], geometry=geometry)
    return builder.build()


@every("chip", PAIR)
@every("stride", [1, 2**31])
def test_what_is_read_again_too_often_is_refused(chip, stride):
    with pytest.raises(WorkloadError, match="smaller dims or batch"):
        Tiled().costs(reread(stride), chip)


@every("chip", PAIR)
def test_bursts_and_requests_of_any_length_are_counted(chip):
    """No product of sizes in the file leaves int64 unseen."""
    access = [replace(level.access, burst_bytes=10**18) for level in chip.levels]
    levels = tuple(replace(level, access=one) for level, one in zip(chip.levels, access, strict=True))
    words = tuple(10**18 for _ in chip.tiling.request_words)
    with pytest.raises(WorkloadError, match="smaller dims or batch"):
        Tiled().costs(layer("Conv", height=9, width=9), replace(chip, levels=levels))
    assert_sound(layer("Conv", height=9, width=9), replace(chip, tiling=replace(chip.tiling, request_words=words)))


@every("chip", PAIR)
@every("gemm", [(0, 0, 0, 0), (1, 1, 1, 1), (7, 3, 5, 2), (1, MOST, 3, 3)])
def test_programs_without_geometry(chip, gemm):
    """The builder's defaults, several results, and an op that uses nothing."""
    builder = ProgramBuilder("plain", "int8")
    x = builder.tensor("x", 5, TensorKind.INPUT)
    builder.op("Idle", [], [], vector_ops=9)
    builder.op("Any", [x], [builder.tensor(name, 3, TensorKind.OUTPUT) for name in "yz"], gemm=gemm, vector_ops=2)
    builder.op("Check", [x], [], gemm=gemm)
    assert_sound(builder.build(), chip)


@every("chip", PAIR)
def test_programs_without_tensors(chip):
    builder = ProgramBuilder("idle", "int8")
    builder.op("Idle", [], [], vector_ops=9)
    assert_sound(builder.build(), chip)


@every("chip", PAIR)
def test_microblocks_are_compared_exactly(chip):
    """The flat micro-block wastes least on a map of one row, however wide and deep it is."""
    wide = Layer(Kind.PRODUCT, 1, MOST, MOST - 63, 8, 1, 1, 1, 1, 1, MOST)
    deep = Layer(Kind.PRODUCT, 1, 5, 64, 8, 1, 1, 1, 1, 1, 5)
    assert chip.tiling.generation == "ethos-u65" or microblock(wide, chip.tiling)[0] == 1
    assert chip.tiling.generation == "ethos-u65" or microblock(deep, chip.tiling)[0] == 1


@every("cores", [1, 3, 9, 17, 1000])
def test_any_number_of_cores_has_blocks(cores):
    unit = replace(PAIR[0].tiling, cores=cores)
    blocks = least_traffic(Layer(Kind.PRODUCT, 9, 9, 100, 9, 3, 3, 1, 1, 9, 9), unit)
    assert all(np.array(block).min() >= 1 and block.depth % (8 * cores) == 0 for block in blocks)
