"""Mechanisms of a chip that sums of port times leave out, for the event simulator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """Ops run tile by tile: loads, unit and stores of different tiles overlap.

    Attributes:
        buffers: tiles that are under way at once, from the first load to the last store.
        local_bytes: bytes of the unit's own memory, which the buffers share.
        ops_in_flight: 1: an op begins when the one before has ended; 2: when the one before that has.
    """

    buffers: int
    local_bytes: int
    ops_in_flight: int


@dataclass(frozen=True)
class DmaEngines:
    """Copies run on engines of their own, a descriptor at a time, and queue for the backing memory like ops.

    Attributes:
        engines: number of engines, each of which works on one descriptor.
        bytes_per_s: bytes/s that one engine moves at most.
        descriptor_bytes: bytes that one descriptor moves at most.
        descriptor_ps: picoseconds that an engine takes for a descriptor beside its bytes.
    """

    engines: int
    bytes_per_s: int
    descriptor_bytes: int
    descriptor_ps: int


@dataclass(frozen=True)
class DramBanks:
    """The backing memory has banks, and its bus turns round between reads and writes.

    Attributes:
        banks: of all channels together; addresses are interleaved over them.
        interleave_bytes: bytes after which the next bank follows.
        same_bank_ps: picoseconds that a request costs more if the one before was to the same bank.
        read_to_write_ps, write_to_read_ps: picoseconds that a change of direction costs.
    """

    banks: int
    interleave_bytes: int
    same_bank_ps: int
    read_to_write_ps: int
    write_to_read_ps: int


@dataclass(frozen=True)
class Mechanisms:
    """Each mechanism is None where the chip's description does not have it."""

    tiles: Tiles | None = None
    dma: DmaEngines | None = None
    dram: DramBanks | None = None


NO_MECHANISMS = Mechanisms()
