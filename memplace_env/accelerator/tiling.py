"""What tiling needs to know of a chip: its unit's shape, what it holds locally, how its memories are accessed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal


@dataclass(frozen=True)
class Access:
    """How a memory is accessed, which bounds the bandwidth that short or few requests reach.

    Attributes:
        burst_bytes: least bytes of one access; shorter runs waste the rest.
        ports: over which requests are spread.
        outstanding_reads, outstanding_writes: requests under way at once on each port.
        read_latency_ps, write_latency_ps: of one request.
    """

    burst_bytes: int
    ports: int
    outstanding_reads: int
    outstanding_writes: int
    read_latency_ps: int
    write_latency_ps: int


Box = tuple[int, int, int]
"""Height, width and channels of a piece of a feature map."""


@dataclass(frozen=True)
class Blocks:
    """A unit that makes its result block by block, micro-block by micro-block: Arm's Ethos-U.

    Attributes:
        generation: which of the two families; they differ in how buffers are shared and requests are made.
        clock_hz: of the unit.
        cores: over which the work is spread.
        microblocks: results that are worked on at once, for products; the one that wastes least is taken.
        vector_microblocks: the same for everything else.
        largest_block: bound on a block.
        depth_slice: input channels that are read at once.
        buffer_bytes: "ethos-u65": (shared by input and accumulators,); "ethos-u85": (input, accumulators).
        output_cycles: cycles that one result element takes on its way out, over all cores: of a plain op, of max
            pooling, of multiplication, of addition.
        request_words: 16-byte words of request buffers of each channel: weights by DMA, weights and scales as they are
            used, inputs; () where requests bound nothing.
    """

    generation: Literal["ethos-u65", "ethos-u85"]
    clock_hz: int
    cores: int
    microblocks: tuple[Box, ...]
    vector_microblocks: tuple[Box, ...]
    largest_block: Box
    depth_slice: int
    buffer_bytes: tuple[int, ...]
    output_cycles: tuple[Fraction, Fraction, Fraction, Fraction]
    request_words: tuple[int, ...] = ()


Tiling = Blocks
"""What a chip can say of its unit: one form per way of tiling in `memplace_env.costs.tiled`."""
