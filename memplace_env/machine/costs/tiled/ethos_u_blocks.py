"""Blocks of Arm's Ethos-U: the choice of a layer's block, the bytes that it makes the unit read, its cycles.

The formulas are those by which ethos-u-vela 5.2.0, Arm's own compiler, estimates its hardware.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Generic, NamedTuple

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.units import Whole, ceil_div, round_up
from memplace_env.machine.accelerator.tiling_description import Box, EthosU
from memplace_env.machine.costs.tiled.nest import Kind
from memplace_env.program.program import Ints

BRICK = 16
"""Channels of a pixel that lie together in memory."""

SCALE_BYTES = 10
"""Bytes of bias, multiplier and shift for each channel of a product's result."""

_SUBKERNEL = 8
"""Largest side of the part of a window that is worked on at once."""

_PART = 16
"""Number of input channels that are read at once where kernel elements, not channels, fill the unit."""

_AT_ONCE = 4
"""Number of kernel elements that fill the unit where channels do not, and least cycles of a micro-block."""

_BANKS = 8 * 1024, 16 * 1024
"""Ethos-U65: sizes that buffers of input and of accumulators are multiples of, in bytes."""

_STRIDE = 2**31
"""Largest stride of a window, so that no block's input leaves int64."""


class Layer(NamedTuple):
    """An op as the unit sees it, see `Nests`; two ops with the same Layer are tiled alike."""

    kind: Kind
    height: int
    width: int
    depth: int
    channels: int
    kernel_y: int
    kernel_x: int
    stride_y: int
    stride_x: int
    input_height: int
    input_width: int

    @property
    def subkernels(self) -> list[tuple[int, int]]:
        """(Elements of a part, number of such parts) of the parts of the window: whole ones, and those at its ends."""
        rows, columns = (
            ((_SUBKERNEL, side // _SUBKERNEL), (side % _SUBKERNEL, min(1, side % _SUBKERNEL)))
            for side in (self.kernel_y, self.kernel_x)
        )
        return [(y * x, many * times) for y, many in rows for x, times in columns]

    @property
    def parts(self) -> int:
        """Number of parts of the window."""
        return ceil_div(self.kernel_y, _SUBKERNEL) * ceil_div(self.kernel_x, _SUBKERNEL)

    @property
    def keeps_channels(self) -> bool:
        """True if each channel of the result depends on one of the input."""
        return self.kind != Kind.PRODUCT


class EthosBlock(NamedTuple, Generic[Whole]):
    """A piece of the result that is made at once, or B of them, int64[B] each.

    Attributes:
        height, width, depth: elements of the result.
        input_height, input_width: elements of the input that it needs.
    """

    height: Whole
    width: Whole
    depth: Whole
    input_height: Whole
    input_width: Whole


def read_elements(layer: Layer, block: EthosBlock[int]) -> int:
    """Return the input elements read to make the layer in such blocks; pixels come in bricks of channels."""
    if layer.kind == Kind.ELEMENTWISE:
        return layer.height * layer.width * round_up(layer.channels, BRICK)
    again = 1 if layer.keeps_channels else ceil_div(layer.depth, block.depth)
    pixels = block.input_height * block.input_width * layer.parts
    return pixels * round_up(layer.channels, BRICK) * blocks_per_map(layer, block) * again


def blocks_per_map(layer: Layer, block: EthosBlock[Whole]) -> Whole:
    """Return the number of blocks side by side in height and width: weights are read so often."""
    return ceil_div(layer.height, block.height) * ceil_div(layer.width, block.width)


@lru_cache(maxsize=4096)
def least_traffic(layer: Layer, unit: EthosU) -> tuple[EthosBlock[int], ...]:
    """Return the blocks that move least among those that fit all buffers, a half of them, a quarter, and so on.

    The first is the compiler's choice by ethos-u-vela's measure: elements of input and weights read. Of equal ones it
    takes the flattest, lowest, narrowest; of those that keep channels first the ones with the fewest blocks: our
    choice. Larger blocks can be slower, which the others are for: our choice, so that larger buffers are no loss.

    Raises:
        WorkloadError: if the layer is too large to be counted.
    """
    if max(layer.stride_y, layer.stride_x) > _STRIDE:
        raise WorkloadError("One op strides further than the simulator counts; pass smaller dims.")
    blocks = _candidates(layer, unit)
    _check_range(layer, unit, blocks)
    need, room = _buffers(layer, unit, blocks)
    count = blocks_per_map(layer, blocks) * ceil_div(layer.depth, blocks.depth) * layer.keeps_channels
    order = np.lexsort((blocks.width, blocks.height, blocks.depth, count, _traffic(layer, unit, blocks)))
    chosen, share = [], 1
    while True:
        fits = np.logical_and.reduce([bytes_ <= most // share for bytes_, most in zip(need, room, strict=True)])[order]
        if not fits.any():
            break
        best = order[fits.argmax()]
        chosen.append(EthosBlock(*(int(column[best]) for column in blocks)))
        share *= 2
    smallest = EthosBlock(*(int(column[0]) for column in blocks))
    return tuple(dict.fromkeys(chosen)) or (smallest,)


@lru_cache(maxsize=4096)
def microblock(layer: Layer, unit: EthosU) -> Box:
    """Return the results worked on at once: the micro-block that wastes least; the U65 lays it along a single row."""
    if unit.generation == "ethos-u65" and layer.height == layer.kernel_y == 1 and layer.width % 2 == 0:
        return 1, 4, unit.microblocks[0][2]
    choice = unit.vector_microblocks if layer.keeps_channels else unit.microblocks
    sizes = layer.height, layer.width, layer.depth
    return min(choice, key=lambda box: prod(round_up(size, step) for size, step in zip(sizes, box, strict=True)))


def cycles(layer: Layer, block: EthosBlock[int], unit: EthosU, output_cycles: Fraction) -> Fraction:
    """Return the unit's cycles for the whole layer: multiplying and writing out of neighbouring blocks overlap.

    Args:
        layer: the layer.
        block: its block.
        unit: the unit.
        output_cycles: cycles of one result element.
    """
    if layer.kind == Kind.ELEMENTWISE:
        return output_cycles * layer.height * layer.width * round_up(layer.channels, BRICK)
    box = microblock(layer, unit)
    pixels = ceil_div(block.height, box[0]) * ceil_div(block.width, box[1])
    groups = ceil_div(block.depth, box[2])
    multiply = _multiply_cycles(layer, unit, box, pixels) * groups
    output = output_cycles * block.height * block.width * block.depth
    boxes = ceil_div(layer.height, box[0]) * ceil_div(layer.width, box[1]) * ceil_div(layer.depth, box[2])
    blocks = Fraction(boxes, pixels * groups)
    return blocks * max(multiply, output) + min(multiply, output)


def _multiply_cycles(layer: Layer, unit: EthosU, box: Box, pixels: int) -> Fraction:
    """Return the cycles of one group of channels of a block, `pixels` micro-blocks each, with decoding of weights."""
    older = unit.generation == "ethos-u65"
    decoding = Fraction(4 * box[2], 1 if older else unit.cores)
    parts = sum(ceil_div(elements, _AT_ONCE) * many for elements, many in layer.subkernels)
    if layer.kind in (Kind.DEPTHWISE, Kind.MEAN):
        spent = max(decoding, Fraction(_AT_ONCE * pixels)) * parts
    elif layer.keeps_channels:
        elements = sum(max(_AT_ONCE, elements) * many for elements, many in layer.subkernels)
        spent = Fraction(_AT_ONCE * elements * pixels)
    elif _fills_with_kernel(layer, unit):
        slice_ = min(_PART, round_up(layer.channels, 8))
        spent = max(decoding, Fraction(_AT_ONCE * pixels)) * parts * (slice_ // 8) * ceil_div(layer.channels, slice_)
    else:
        per_slice = max(decoding, Fraction(unit.depth_slice // 8 * pixels))
        spent = per_slice * layer.kernel_y * layer.kernel_x * ceil_div(layer.channels, unit.depth_slice)
    return spent / unit.cores if older else spent


@lru_cache(maxsize=4096)
def _fills_with_kernel(layer: Layer, unit: EthosU) -> bool:
    """Return whether a product's kernel elements fill the unit no worse than its input channels do.

    On the U85, what part of the unit a kernel fills is ethos-u-vela's estimate.
    """
    kernel, channels = layer.kernel_y * layer.kernel_x, layer.channels
    by_channels = Fraction(channels, round_up(channels, unit.depth_slice))
    if unit.generation == "ethos-u65":
        filled = Fraction(channels * kernel, round_up(channels, 8) * round_up(kernel, _AT_ONCE))
        return channels <= 8 or filled >= by_channels
    held = 5 * (kernel // 5) + (max(kernel % 5, 2) if kernel % 5 else 0)
    return Fraction(channels * kernel, round_up(channels, 16) * held) >= by_channels


def held_channels(layer: Layer, unit: EthosU) -> int:
    """Return the input channels of a pixel that a product holds and reads at once; on the U65 at most all there are."""
    slice_ = _PART if _fills_with_kernel(layer, unit) else unit.depth_slice
    return min(slice_, round_up(layer.channels, 8)) if unit.generation == "ethos-u65" else slice_


def _candidates(layer: Layer, unit: EthosU) -> EthosBlock[Ints]:
    """Return all blocks that are multiples of the micro-block, the smallest first; of whole bricks where any is."""
    box = microblock(layer, unit)
    steps = box[0], box[1], box[2] * (unit.cores if unit.generation == "ethos-u65" else 1)
    sizes = layer.height, layer.width, layer.depth
    heights, widths, depths = (
        np.arange(step, max(step, min(most, round_up(size, step))) + 1, step, dtype=np.int64)
        for size, step, most in zip(sizes, steps, unit.largest_block, strict=True)
    )
    whole = (depths >= layer.depth) | (depths % BRICK == 0)
    depths = depths[whole] if whole.any() else depths[:1]
    height, width, depth = (axis.ravel() for axis in np.meshgrid(heights, widths, depths, indexing="ij"))
    rows = (height - 1) * layer.stride_y + min(layer.kernel_y, _SUBKERNEL)
    columns = (width - 1) * layer.stride_x + min(layer.kernel_x, _SUBKERNEL)
    return EthosBlock(height, width, depth, round_up(rows, box[0]), round_up(columns, box[1]))


def _check_range(layer: Layer, unit: EthosU, blocks: EthosBlock[Ints]) -> None:
    """Refuse layers whose traffic might not fit int64, by a bound that takes the most of everything."""
    area, deepest = int(blocks.input_height.max()) * int(blocks.input_width.max()), int(blocks.depth.max())
    filters, slices = layer.depth + deepest, ceil_div(layer.depth, int(blocks.depth.min()))
    if layer.keeps_channels:
        filters, slices = 1, 1
    times = int(blocks_per_map(layer, blocks).max())
    held = area * 2 * max(deepest, unit.depth_slice)
    inputs = area * (layer.channels + BRICK) * layer.parts * slices * max(times, layer.height * layer.width)
    weights = (layer.kernel_y * layer.kernel_x * layer.channels + SCALE_BYTES) * filters * times
    if 2 * (held + inputs + weights) > 2**62:
        raise WorkloadError("One op moves more than the simulator counts; pass smaller dims or batch.")


def _buffers(layer: Layer, unit: EthosU, blocks: EthosBlock[Ints]) -> tuple[list[Ints], tuple[int, ...]]:
    """Return bytes that blocks need in each buffer, and bytes of each buffer; products hold two blocks at once."""
    channels = blocks.depth if layer.keeps_channels else np.full_like(blocks.depth, held_channels(layer, unit))
    pixels, results = blocks.input_height * blocks.input_width, blocks.height * blocks.width
    if unit.generation == "ethos-u65":
        held = round_up(2 * pixels * round_up(channels, 8), _BANKS[0])
        return [held + round_up(8 * results * round_up(blocks.depth, 8), _BANKS[1])], unit.buffer_bytes
    copies = 1 if layer.keeps_channels and layer.kind != Kind.ELEMENTWISE else 2
    return [copies * pixels * channels, 4 * copies * results * round_up(blocks.depth, BRICK)], unit.buffer_bytes


def _traffic(layer: Layer, unit: EthosU, blocks: EthosBlock[Ints]) -> Ints:
    """Return the elements read, by which the block is chosen, twice; once where both buffers hold the input whole.

    Blocks at the edges count only with the part inside. Halving is ethos-u-vela's way to prefer such blocks.
    """
    if layer.kind == Kind.ELEMENTWISE:
        return -blocks.height * blocks.width * blocks.depth
    pixels, window = blocks.input_height * blocks.input_width, layer.kernel_y * layer.kernel_x
    again = 1 if layer.keeps_channels else ceil_div(layer.depth, blocks.depth)
    passes = layer.height * layer.width * layer.parts * again
    elements = pixels * layer.channels * passes // (blocks.height * blocks.width)
    if layer.kind in (Kind.DEPTHWISE, Kind.MEAN):
        elements = elements + window * layer.channels * blocks_per_map(layer, blocks)
    elif layer.kind == Kind.PRODUCT and layer.height * layer.width > 1:
        elements = elements + window * layer.channels * layer.depth * blocks_per_map(layer, blocks)
    held = 2 * pixels * (blocks.depth if layer.keeps_channels else held_channels(layer, unit))
    whole = layer.input_height * layer.input_width * layer.channels < held
    return np.where(whole, elements, 2 * elements)
