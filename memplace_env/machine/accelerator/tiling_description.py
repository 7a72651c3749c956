"""Properties of a chip that tiling depends on: shape and local memory of its unit, accesses to its memories."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal


@dataclass(frozen=True)
class Access:
    """Properties of accesses to a memory, which bound the bandwidth that short or few requests reach.

    Attributes:
        burst_bytes: least bytes of one access; shorter runs waste the rest.
        ports: number of ports that requests are spread over.
        outstanding_reads, outstanding_writes: requests under way at once on each port.
        read_latency_ps, write_latency_ps: latency of one request.
    """

    burst_bytes: int
    ports: int
    outstanding_reads: int
    outstanding_writes: int
    read_latency_ps: int
    write_latency_ps: int


Box = tuple[int, int, int]
"""Three sizes; of a piece of a feature map its height, width and channels."""


@dataclass(frozen=True)
class OutputCycles:
    """Cycles that a result element takes on its way out, over all cores, by what makes it."""

    plain: Fraction
    max_pool: Fraction
    multiply: Fraction
    add: Fraction


@dataclass(frozen=True)
class EthosU:
    """Arm's Ethos-U: it makes its result block by block, micro-block by micro-block.

    Attributes:
        generation: one of two families, which differ in their buffers and in their requests to memories.
        clock_hz: clock rate of the unit.
        cores: over which the work is spread.
        microblocks: results of a product that are worked on at once; the one that wastes least is taken.
        vector_microblocks: the same for everything else.
        largest_block: bound on a block.
        depth_slice: input channels of a product that are read at once.
        buffer_bytes: "ethos-u65": (of input and accumulators together,); "ethos-u85": (of input, of accumulators).
        output_cycles: see there.
        request_words: 16-byte words that can be asked for at once: of weights to be staged, of weights that are not, of
            input, of scales; () where nothing but the memory bounds requests.
    """

    generation: Literal["ethos-u65", "ethos-u85"]
    clock_hz: int
    cores: int
    microblocks: tuple[Box, ...]
    vector_microblocks: tuple[Box, ...]
    largest_block: Box
    depth_slice: int
    buffer_bytes: tuple[int, ...]
    output_cycles: OutputCycles
    request_words: tuple[int, ...] = ()


@dataclass(frozen=True)
class Engines:
    """A unit of equal engines that share out each op; each multiplies on a grid and has level 0 of its own.

    Attributes:
        engines: how many.
        grid: results along the feature map, output channels and input channels that an engine works on in a cycle.
        loads: "hidden": operands arrive while the engine works on others; "exposed": before it begins, so that the
            times of memory and compute add up.
    """

    engines: int
    grid: Box
    loads: Literal["hidden", "exposed"]


@dataclass(frozen=True)
class LocalMemory:
    """A systolic unit, of the shape of `Accelerator.systolic`, whose operands pass through a local memory.

    Attributes:
        local_bytes: capacity of the local memory.
    """

    local_bytes: int


Unit = EthosU | Engines | LocalMemory
"""Descriptions of a unit: one form per way of tiling in `memplace_env.machine.costs.tiled`."""
