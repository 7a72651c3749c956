"""Tiled costs on Arm's Ethos-U, loop by loop with exact fractions: what `costs.tiled.Tiled` is held equal to there.

The loop nest of each op is taken from `costs.tiled.nest`; the rest is written anew from the formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from memplace_env._lib.units import PS_PER_S
from memplace_env.machine.accelerator import Accelerator, MemoryLevel
from memplace_env.machine.accelerator.tiling_description import EthosU
from memplace_env.machine.costs import Costs
from memplace_env.machine.costs.tiled.nest import Kind, Nests, Role, nests
from memplace_env.program.program import Program, TensorKind
from tests.references.reference_blocks import Block, UnitAtWork, up
from tests.references.reference_costs import roofline

STAGING, WEIGHTS, INPUT, SCALES = range(4)
"""Buffers for requests, as `EthosU.request_words` lists them."""


@dataclass(frozen=True)
class Access:
    """Bytes and runs of one use.

    Attributes:
        moved: bytes.
        run: contiguous bytes, None for all.
        asked, slow_asked: bytes under way at once that the unit can request, None for no bound.
    """

    moved: int
    run: int | None
    asked: int | None
    slow_asked: int | None


@dataclass(frozen=True)
class OpCosts:
    """One op in one block: time, accesses and their times [use][level], buffer of its weights, time from backing."""

    compute_ps: int
    accesses: list[Access]
    use_ps: list[list[int]]
    buffer: int
    again: int
    whole_ps: int


def tiled(program: Program, accelerator: Accelerator) -> Costs:
    """Return what `Tiled().costs` must return on a chip with an Ethos-U."""
    ideal, every = roofline(program, accelerator), nests(program)
    best = []
    for op in range(program.num_ops):
        work = Op(program, accelerator, every, ideal, op)
        options = [work.costs(block) for block in work.blocks()]
        best.append(min(options, key=lambda option: option.whole_ps))  # the first of the fastest
    levels = accelerator.levels
    reserved = [[0] * len(levels) for _ in best]
    for op, costs in enumerate(best):
        reserved[op][0] += costs.buffer
        if op and any(every.role[use] == Role.WEIGHTS and constant(program, use) for use in uses_of(program, op)):
            reserved[op - 1][0] += costs.buffer
    accesses = [access for costs in best for access in costs.accesses]
    moved = [[carried(access.moved, access.run, level) for index, level in enumerate(levels)] for access in accesses]
    energy = [
        [round(max(int(size), bytes_) * level.pj_per_byte) for bytes_, level in zip(row, levels, strict=True)]
        for size, row in zip(program.use_bytes, moved, strict=True)
    ]
    restreamed = np.array([round(costs.again * levels[0].pj_per_byte) for costs in best], dtype=np.int64)
    return ideal._replace(
        compute_ps=np.array([costs.compute_ps for costs in best]),
        compute_pj=ideal.compute_pj + restreamed,
        use_ps=np.array([row for costs in best for row in costs.use_ps], dtype=np.int64).reshape(-1, len(levels)),
        use_pj=np.array(energy, dtype=np.int64).reshape(-1, len(levels)),
        reserved_bytes=np.array([[min(row[0], levels[0].capacity_bytes), *row[1:]] for row in reserved]),
    )


def uses_of(program: Program, op: int) -> range:
    return range(int(program.use_ptr[op]), int(program.use_ptr[op + 1]))


def constant(program: Program, use: int) -> bool:
    return bool(program.tensor_kind[program.use_tensor[use]] == TensorKind.WEIGHT)


class Op(UnitAtWork):
    """One op with all its accesses."""

    def __init__(self, program: Program, accelerator: Accelerator, every: Nests, ideal: Costs, op: int) -> None:
        assert isinstance(accelerator.tiling, EthosU)
        super().__init__(program, accelerator.tiling, every, op)
        self.program, self.accelerator, self.ideal = program, accelerator, ideal
        self.op, self.uses, self.role = op, uses_of(program, op), every.role
        self.ideal_ps = int(ideal.compute_ps[op])

    def costs(self, block: Block) -> OpCosts:
        accesses = [self.access(use, block) for use in self.uses]
        busy, buffer, again = self.busy(block), 0, 0
        for use, access in zip(self.uses, accesses, strict=True):
            if self.role[use] == Role.WEIGHTS and (buffer := self.buffer(use, block)):
                rate = self.accelerator.levels[0].read_bytes_per_s
                busy = max(busy, Fraction(access.moved * self.blocks_per_map(block) * self.unit.clock_hz, rate))
                again = access.moved * (self.blocks_per_map(block) - 1)
        compute = max(self.ideal_ps, ceil(busy * PS_PER_S / self.unit.clock_hz))
        columns = [self.level_times(accesses, index) for index in range(self.accelerator.num_levels)]
        use_ps = [list(row) for row in zip(*columns, strict=True)]
        return OpCosts(compute, accesses, use_ps, buffer, again, self.whole(compute, use_ps))

    def busy(self, block: Block) -> Fraction:
        """Cycles of the unit with its waits: for the first input and the last result of each op that is one of its own,
        and, between those, for their weights."""
        busy, clock = self.cycles(block), Fraction(self.unit.clock_hz, PS_PER_S)
        ops = self.pieces * (self.repeats if self.program.gemm[self.op][0] > 1 else 1)
        fast, slow = self.accelerator.levels[0], self.accelerator.levels[-1]
        if self.kind != Kind.ELEMENTWISE:
            h, w, d = (min(pair) for pair in zip(block, self.size(), strict=True))
            c = min(self.C, self.slice()) if self.sums else d
            rows, columns = (min(self.input_side(block, axis), self.input_sides[axis]) for axis in (0, 1))
            wait = Fraction(rows * columns * c * PS_PER_S, fast.read_bytes_per_s)
            wait += Fraction(h * w * d * PS_PER_S, fast.write_bytes_per_s)
            if fast.access:
                wait += fast.access.read_latency_ps + fast.access.write_latency_ps
            busy += ops * wait * clock
        weights = [use for use in self.uses if self.role[use] == Role.WEIGHTS and constant(self.program, use)]
        if ops > 1 and weights:
            rate = min(Fraction(slow.read_bytes_per_s), self.request_rate(slow, False, self.words(STAGING)))
            size = Fraction(int(self.program.use_bytes[weights[0]]), self.repeats)
            latency = slow.access.read_latency_ps if slow.access else 0
            busy = max(busy, ops * (latency + size * PS_PER_S / rate) * clock)
        return busy

    def whole(self, compute: int, use_ps: list[list[int]]) -> int:
        """Time with everything in the backing memory, but for what an op takes in any block."""
        memory = sum(row[-1] for row in use_ps)
        memory += self.accelerator.levels[-1].latency_ps if memory else 0
        return max(compute, memory)

    def buffer(self, use: int, block: Block) -> int:
        """Bytes of fast memory for weights that are read more than once."""
        size = int(self.program.use_bytes[use])
        two = min(size, 2 * ceil(Fraction(size * block[2], self.D)))
        if self.by_column or self.blocks_per_map(block) == 1 or self.pieces > 1:
            return 0
        for wanted, share in ((size, Fraction(1, 8)), (two, Fraction(1, 2))):
            if wanted <= share * self.accelerator.levels[0].capacity_bytes:
                return wanted
        return 0

    def access(self, use: int, block: Block) -> Access:
        size, role = int(self.program.use_bytes[use]), self.role[use]
        stream = self.words(INPUT)
        result = self.uses[-1]
        written = ceil(Fraction(int(self.program.use_bytes[result]) * up(self.D, 16), self.D))
        write_run = 16 * block[1] * (self.unit.cores if self.old else 1)
        if self.old and self.op_type == "Transpose" and (role == Role.INPUT or use == result):
            return simple(size, 16 * self.unit.cores if use == result else None, None)
        if role == Role.RESULT:
            return simple(written, write_run, None) if use == result else simple(size, None, None)
        if role == Role.WEIGHTS:
            asked = self.words(WEIGHTS)
            if self.buffer(use, block):
                return Access(size, None, asked, self.words(STAGING))
            if self.by_column:
                return simple(size, None, asked)
            return simple(size * self.pieces * self.blocks_per_map(block), None, asked)
        if role == Role.INPUT:
            return self.streamed(use, block)
        if self.kind in (Kind.PRODUCT, Kind.DEPTHWISE):
            if constant(self.program, use):
                reads = self.pieces * self.blocks_per_map(block) * self.repeats
                return simple(max(size, 10 * self.D * reads), None, self.words(SCALES))
            return simple(written, write_run, stream)
        if self.old or size == self.program.use_bytes[result]:
            plain = self.kind == Kind.ELEMENTWISE and constant(self.program, use)
            return simple(max(size, written), min(block[2], self.D) if plain else write_run, stream)
        return simple(size, None, stream)

    def streamed(self, use: int, block: Block) -> Access:
        """The input: bricks of 16 channels if the unit has made it, else pixels one after the other."""
        size = int(self.program.use_bytes[use])
        if self.by_column:
            return simple(size * self.D, min(self.C, self.unit.depth_slice), self.words(INPUT))
        plain = self.outside(use)
        channels, run = (self.C, self.slice()) if plain else (up(self.C, 16), 16 * self.input_side(block, 1))
        elements = self.pieces * self.input_reads(block, channels)
        if self.kind == Kind.ELEMENTWISE:
            elements = self.H * self.W * channels
        moved = ceil(Fraction(elements * size, self.input_pixels * self.C))
        return simple(max(size, moved), run, self.words(INPUT))

    def outside(self, use: int) -> bool:
        """Return whether a tensor comes from outside of the program."""
        return self.program.tensor_kind[self.program.use_tensor[use]] in (TensorKind.INPUT, TensorKind.WEIGHT)

    def words(self, index: int) -> int | None:
        return 16 * self.unit.request_words[index] if self.unit.request_words else None

    # Times

    def level_times(self, accesses: list[Access], index: int) -> list[int]:
        """Picoseconds of one level's port for each access."""
        alone, bytes_only, memory = [], [], self.accelerator.levels[index]
        for use, access in zip(self.uses, accesses, strict=True):
            result = self.role[use] == Role.RESULT
            amount = carried(access.moved, access.run, memory)
            peak = Fraction(memory.write_bytes_per_s if result else memory.read_bytes_per_s)
            asked = access.slow_asked if index else access.asked
            rate = min(peak, self.request_rate(memory, result, asked))
            alone.append(ceil(amount * PS_PER_S / rate))
            bytes_only.append(ceil(amount * PS_PER_S / peak))
        ideal = [int(self.ideal.use_ps[use, index]) for use in self.uses]
        return [max(pair) for pair in zip(ideal, self.beside(alone, bytes_only), strict=True)]

    def request_rate(self, memory: MemoryLevel, result: bool, asked: int | None) -> Fraction:
        """0.8 B min(words / (B / 16), 0.8 ports outstanding) / latency, whole bytes per second."""
        if memory.access is None or not self.unit.request_words:
            return Fraction(2**62)
        access = memory.access
        outstanding, latency = access.outstanding_reads, access.read_latency_ps
        if result:
            outstanding, latency = access.outstanding_writes, access.write_latency_ps
        requests = Fraction(8, 10) * access.ports * outstanding
        if asked is not None:
            requests = min(requests, Fraction(asked, access.burst_bytes))
        rate = Fraction(8, 10) * access.burst_bytes * requests * PS_PER_S / max(1, latency)
        return Fraction(max(1, rate.numerator // rate.denominator))

    def beside(self, alone: list[int], bytes_only: list[int]) -> list[int]:
        """Times of uses that wait beside each other: what comes from outside has a buffer for requests of its own.

        They end when all their bytes have come, and not before the slowest of them would alone, which pays for that.
        """
        group = [at for at, use in enumerate(self.uses) if self.outside(use)]
        times = [bytes_only[at] if at in group else time for at, time in enumerate(alone)]
        if group:
            slowest = max(group, key=lambda at: alone[at])  # the first of those
            others = sum(bytes_only[at] for at in group if at != slowest)
            times[slowest] = max(bytes_only[slowest], alone[slowest] - others)
        return times


def simple(moved: int, run: int | None, asked: int | None) -> Access:
    """An access that is the same at all levels."""
    return Access(moved, run, asked, asked)


def carried(moved: int, run: int | None, memory: MemoryLevel) -> int:
    """Bytes that bring the wanted ones: whole ones of B / min(B, run) times as many."""
    if memory.access is None or run is None:
        return moved
    burst = memory.access.burst_bytes
    return ceil(moved * Fraction(burst, min(burst, run)))
