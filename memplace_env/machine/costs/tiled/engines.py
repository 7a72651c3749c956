"""Tiling on a unit of many engines, each a grid of results by channels by depth: Intel's NNP-I and NPU.

Each op is split over the engines, which fetch what they need on their own: an engine that makes a share of the result's
channels reads that share of the weights and all inputs, one that makes a share of its pixels the reverse. So with q
shares of the pixels and r of the channels the engines read the weights q times and the inputs r times. The backing
memory is read once, as whatever lies between, a shared cache or a broadcast of the transfer, hands one read on to all.

Our choices: the engines are split evenly, into as many equal shares along each axis; sizes are rounded up to the grid
once per share; a depthwise convolution finds one input channel per result, so its depth is filled by one element;
what is no product runs on vector units at their peak. Left out: rows that windows share at the edges of shares, and
operands read again because an engine's own memory is too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from math import prod
from typing import NamedTuple

import numpy as np

from memplace_env._lib.units import PS_PER_S, ceil_div
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.tiling_description import Box, Engines
from memplace_env.machine.costs.roofline import ceil_ratio
from memplace_env.machine.costs.tiled.nest import Kind, Nests, Role, nests, operand_bytes, read_again
from memplace_env.machine.costs.tiled.tiling_form import Tiling
from memplace_env.program.program import Program


class Product(NamedTuple):
    """Equal `products`: pixels x depth times depth x channels, with a window of so many elements, and bytes."""

    products: int
    pixels: int
    channels: int
    depth: int
    window: int
    input_bytes: int
    weight_bytes: int


class WorkSplit(NamedTuple):
    """A split of a product over the engines: cycles of the busiest, shares of the pixels and of the channels."""

    cycles: int
    pixels: int
    channels: int


def tile_engines(program: Program, accelerator: Accelerator) -> Iterable[Tiling]:
    """Yield one tiling: each op in the split with the fewest cycles, of equal ones with the fewest bytes."""
    unit, nest = accelerator.tiling, nests(program)
    assert isinstance(unit, Engines)
    splits = [
        WorkSplit(0, 1, 1) if product is None else best_split(product, unit.engines, unit.grid)
        for product in _products(program, nest)
    ]
    cycles, pixels, channels = (np.array(column, dtype=object) for column in zip(*splits, strict=True))
    moved = np.empty((program.num_uses, accelerator.num_levels), dtype=np.int64)
    moved[:] = read_again(program, nest.role, channels, pixels)[:, None]
    moved[:, accelerator.backing] = program.use_bytes
    slots = cycles * unit.engines * prod(unit.grid)  # products that the grids could have made meanwhile
    yield Tiling(
        compute_ps=ceil_ratio(slots, PS_PER_S, accelerator.matrix_macs_per_s[program.dtype]),
        moved_bytes=moved,
        run_bytes=np.maximum(1, program.use_bytes),
        reserved_bytes=np.zeros(program.num_ops, dtype=np.int64),
        loads_exposed=unit.loads == "exposed",
    )


@cache
def best_split(product: Product, engines: int, grid: Box) -> WorkSplit:
    """Return the split with the fewest cycles; of equal ones that with the fewest bytes, then fewest pixel shares."""
    return min(
        (split_in(product, shares, grid) for shares in shares_of(engines)),
        key=lambda split: (
            split.cycles,
            split.pixels * product.weight_bytes + split.channels * product.input_bytes,
            split.pixels,
        ),
    )


def split_in(product: Product, shares: tuple[int, int, int], grid: Box) -> WorkSplit:
    """Return the split of a product into shares of its products, pixels and channels."""
    of_products, of_pixels, of_channels = shares
    cycles = (
        ceil_div(product.products, of_products)
        * ceil_div(product.pixels, of_pixels * grid[0])
        * ceil_div(product.channels, of_channels * grid[1])
        * ceil_div(product.depth, grid[2])
        * product.window
    )
    return WorkSplit(cycles, of_pixels, of_channels)


def shares_of(engines: int) -> Iterator[tuple[int, int, int]]:
    """Yield all triples of integers whose product is the number of engines."""
    for first in range(1, engines + 1):
        for second in range(1, engines // first + 1):
            if engines % (first * second) == 0:
                yield first, second, engines // (first * second)


def _products(program: Program, nest: Nests) -> Iterator[Product | None]:
    """Yield the product that each op computes, None where it computes none."""
    inputs, weights = (operand_bytes(program, nest.role, role) for role in (Role.INPUT, Role.WEIGHTS))
    for op in range(program.num_ops):
        kind = nest.kind[op]
        if kind not in (Kind.PRODUCT, Kind.DEPTHWISE):
            yield None
            continue
        yield Product(
            products=int(nest.repeats[op]),
            pixels=int(nest.height[op]) * int(nest.width[op]),
            channels=int(nest.depth[op]),
            depth=1 if kind == Kind.DEPTHWISE else int(nest.channels[op]),
            window=int(nest.kernel_y[op]) * int(nest.kernel_x[op]),
            input_bytes=int(inputs[op]),
            weight_bytes=int(weights[op]),
        )
