"""The Accelerator: peaks, memory levels and policies of one chip, as a frozen dataclass."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from itertools import takewhile
from typing import Final, Literal

from memplace_env._lib.threads import cached_property
from memplace_env.machine.accelerator.event_description import NO_MECHANISMS, Mechanisms
from memplace_env.machine.accelerator.tiling_description import Access, Unit
from memplace_env.program.model_file import RECORDED_FUSION

Ports = Literal["parallel", "serial"]
Weights = Literal["resident", "streamed"]
Fusion = Literal["none", "activation", "chain", "conv", "epilogue"]
InPlace = Literal["none", "elementwise", "rows"]
Holds = Literal["weights", "activations"]

STREAMED = "-streamed"
"""End of the name of a streamed copy of a chip with resident weights, see `Accelerator.streamed`."""

BACKING: Final = "backing"
"""Value of `Accelerator.io_level`: graph inputs and outputs lie in the backing memory, and in no block."""
ANY: Final = "any"
"""Value of `Accelerator.io_level`: graph inputs and outputs lie where the plan wants them."""
KINDS: Final[tuple[Holds, ...]] = ("weights", "activations")

_NOT_HASHED = ("name", "description", "inplace", "io_level", "cost_model", "mechanisms")
_SINCE_2 = ("holds", "writable", "largest_block_bytes")
"""Fields of levels that recorded digests do not hold: they count where they differ from their defaults."""


@dataclass(frozen=True)
class MemoryLevel:
    """One memory. Bandwidths are the effective ones: the description's peak times its `efficiency`.

    Attributes:
        name: as the chip's makers call it.
        capacity_bytes: bytes.
        read_bytes_per_s: bytes/s.
        write_bytes_per_s: bytes/s.
        latency_ps: picoseconds, paid once by an op that touches the level.
        pj_per_byte: picojoules to move one byte.
        access: properties of single accesses, for tiled costs; None if not described.
        alignment_bytes: offsets and sizes of blocks are multiples of it, see `TaskOptions.alignment`.
        holds: kinds of tensors that may lie there: "weights", "activations", which are all others.
        writable: whether anything may be written there; flash holds weights that are there from the start.
        largest_block_bytes: size of the largest block, None if it is bounded by the capacity alone.
    """

    name: str
    capacity_bytes: int
    read_bytes_per_s: int
    write_bytes_per_s: int
    latency_ps: int
    pj_per_byte: float
    access: Access | None = None
    alignment_bytes: int = 1
    holds: tuple[Holds, ...] = KINDS
    writable: bool = True
    largest_block_bytes: int | None = None


@dataclass(frozen=True)
class Systolic:
    """A matrix unit of `arrays` systolic arrays, `rows` x `columns` MACs each, clocked at `clock_hz`.

    With `fill` "hidden", loading and draining an array are hidden behind the work of the fold before; with "exposed"
    each fold pays for them (weight-stationary).
    """

    rows: int
    columns: int
    arrays: int
    clock_hz: int
    fill: Literal["hidden", "exposed"]


@dataclass(frozen=True)
class MeasuredTimes:
    """Times measured on a device, for the cost model "measured".

    Attributes:
        copy_latency_ps: picoseconds that a copy between the device and its host takes beyond its bytes.
        op_ps: picoseconds of an op with all that it reads and makes in the device, at least 1, by
            `memplace_env.machine.costs.op_key`.
    """

    copy_latency_ps: int
    op_ps: dict[str, int]


@dataclass(frozen=True)
class Accelerator:
    """A chip as the simulator sees it. Rates and clocks are the effective ones: the description's peaks times its
    `compute.efficiency`, the share of them that ops reach.

    Attributes:
        name: as in its file.
        description: one line.
        ports: "parallel": an op's memory time is that of its slowest level; "serial": the levels' times add up.
        weights: "resident": placed once, they stay across inferences; "streamed": each inference starts with
            them in the backing memory.
        fusion: the ops that its compiler fuses, see `load_onnx`.
        dtype: the default dtype that models are deployed in.
        matrix_macs_per_s: multiply-accumulates/s for each supported dtype.
        vector_ops_per_s: element operations/s for each supported dtype.
        mac_pj: picojoules per multiply-accumulate for each supported dtype.
        vector_pj: picojoules per element operation for each supported dtype.
        op_overhead_ps: picoseconds added to every op.
        static_power_w: watts drawn all the time.
        dma_efficiency: share of the backing memory's bandwidth that transfers reach, in (0, 1].
        systolic: shape of the matrix unit, or None for a plain peak.
        levels: memories, fastest first, the backing memory last; some may be equally fast, and any may be the largest.
        tiling: bytes and elements that the unit holds and works on at once, for tiled costs; None if not described.
        cost_model: name of the default cost model, see `memplace_env.machine.costs`.
        measured: times of the device itself, for measured costs; None if not described.
        inplace: which results its compiler writes over an operand, see `load_onnx`.
        io_level: where graph inputs arrive and outputs must be: "backing", in the backing memory; "any", in blocks
            wherever the plan wants them, as callers fill the arena; or the name of a level, in blocks there.
        mechanisms: for the event simulator.
    """

    name: str
    description: str
    ports: Ports
    weights: Weights
    fusion: Fusion
    dtype: str
    matrix_macs_per_s: dict[str, int]
    vector_ops_per_s: dict[str, int]
    mac_pj: dict[str, float]
    vector_pj: dict[str, float]
    op_overhead_ps: int
    static_power_w: float
    dma_efficiency: float
    systolic: Systolic | None
    levels: tuple[MemoryLevel, ...]
    tiling: Unit | None = None
    cost_model: str = "roofline"
    measured: MeasuredTimes | None = None
    inplace: InPlace = "none"
    io_level: str = BACKING
    mechanisms: Mechanisms = NO_MECHANISMS

    @property
    def num_levels(self) -> int:
        """L; level L-1 is the backing memory."""
        return len(self.levels)

    @property
    def backing(self) -> int:
        """Index of the backing memory, L-1."""
        return len(self.levels) - 1

    @property
    def fastest_banks(self) -> int:
        """Number of the first levels that have one speed and serve an op at once; 1 where levels' times add up."""
        speeds = [(one.read_bytes_per_s, one.write_bytes_per_s, one.latency_ps) for one in self.levels[:-1]]
        return len(list(takewhile(lambda speed: speed == speeds[0], speeds))) if self.ports == "parallel" else 1

    @property
    def alignment_bytes(self) -> int:
        """Bytes that offsets and sizes of all blocks are multiples of: the largest alignment of a fast level."""
        return max(level.alignment_bytes for level in self.levels[:-1])

    @property
    def dma_bytes_per_s(self) -> tuple[int, int]:
        """Bytes/s at which a transfer (reads, writes) the backing memory."""
        level, share = self.levels[-1], Fraction(str(self.dma_efficiency))
        return int(level.read_bytes_per_s * share), int(level.write_bytes_per_s * share)

    def streamed(self) -> Accelerator:
        """Return the chip with streamed weights: itself, or a copy with `STREAMED` behind its name."""
        if self.weights == "streamed":
            return self
        return replace(self, name=self.name + STREAMED, weights="streamed")

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the chip without names and what a task can choose: alignment, where inputs and outputs lie,
        results in place, costs and mechanisms."""
        values = {key: value for key, value in asdict(self).items() if key not in _NOT_HASHED}
        defaults = {field.name: field.default for field in fields(MemoryLevel)}
        for level in values["levels"]:
            del level["alignment_bytes"]
            for key in [key for key in _SINCE_2 if level[key] == defaults[key]]:
                del level[key]
        if self.measured is None:  # recorded digests hold no such field
            del values["measured"]
        # Fusion is a task's choice too. Digests are recorded with the one that a chip had at that time, by its name.
        values["fusion"] = RECORDED_FUSION.get(self.name.removesuffix(STREAMED), self.fusion)
        return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.sha256)
