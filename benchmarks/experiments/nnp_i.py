"""Compare ResNet-50 on Intel's NNP-I in its modes of work with the published rates.

Published: 3,600 images/s at 48 TOPS (Intel at Hot Chips 31); 10,579.5 samples/s of two chips in MLPerf 0.5, offline,
int8, at 85 TOPS each. The product's mode for throughput is "4x6", its mode for latency "1x2" (slides of that talk):
six pairs of engines work on four images each.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple

from benchmarks.harness import Rows, as_rows
from memplace_env.machine.accelerator import Accelerator, MemoryLevel, load_accelerator
from memplace_env.machine.accelerator.tiling_description import Engines
from memplace_env.machine.costs import CostModel
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.placement.compiler import all_backing_report, native_report
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.task import Task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.model_file import as_written
from memplace_env.program.program import Program

PUBLISHED = {48: 3600.0, 85: 5289.75}
"""Images per second of one chip by its TOPS."""

QUOTED_TOPS = 48
"""TOPS for which the chip's description gives its rates."""

MIB = 2**20


class Mode(NamedTuple):
    """Equal groups of engines, each with a program of its own and its part of what all have.

    Attributes:
        groups: number of groups.
        batch: images of each program.
        sram_mib: SRAM of a group; None for the description's value.
        llc_mib: LLC of a group; None for an equal part.
        loads: see `Engines`; None for the description's value.
    """

    groups: int
    batch: int
    sram_mib: int | None = None
    llc_mib: int | None = None
    loads: Literal["hidden", "exposed"] | None = None


THROUGHPUT = Mode(groups=6, batch=4, sram_mib=8)
"""Mode of the anchor: six pairs, each with the 4 MiB of both of its engines and a sixth of what all share."""

BRACKET = (
    ("six pairs, batch 4: the anchor", THROUGHPUT),
    ("... loads hidden", THROUGHPUT._replace(loads="hidden")),
    ("... 4 MiB of SRAM a pair, each engine holding the same", THROUGHPUT._replace(sram_mib=4)),
    ("... all 24 MiB of LLC for each pair, as if they shared all weights", THROUGHPUT._replace(llc_mib=24)),
    ("twelve engines, batch 1 each", Mode(groups=12, batch=1, sram_mib=4)),
    ("the chip as registered, batch 1", Mode(groups=1, batch=1)),
    ("... loads hidden", Mode(groups=1, batch=1, loads="hidden")),
    ("... batch 24", Mode(groups=1, batch=24)),
)


@cache
def resnet50(batch: int) -> Program:
    """Return ResNet-50 in int8 as the chip's compiler fuses it."""
    graph = {name: value for name, value in as_written("nnp-i").items() if name in ("fusion", "in_place", "patterns")}
    return resolve_workload("ResNet50", batch=batch, dtype="int8", **graph)


def group_of(chip: Accelerator, mode: Mode) -> Accelerator:
    """Return one of the groups: a part of the engines, of the peaks, and of each memory's bandwidth."""
    unit, (sram, llc, dram) = chip.tiling, chip.levels
    assert isinstance(unit, Engines)

    def share(level: MemoryLevel, capacity_bytes: int) -> MemoryLevel:
        read, write = level.read_bytes_per_s // mode.groups, level.write_bytes_per_s // mode.groups
        return replace(level, capacity_bytes=capacity_bytes, read_bytes_per_s=read, write_bytes_per_s=write)

    sram_bytes = sram.capacity_bytes if mode.sram_mib is None else mode.sram_mib * MIB
    llc_bytes = llc.capacity_bytes // mode.groups if mode.llc_mib is None else mode.llc_mib * MIB
    return replace(
        chip,
        matrix_macs_per_s={dtype: rate // mode.groups for dtype, rate in chip.matrix_macs_per_s.items()},
        vector_ops_per_s={dtype: rate // mode.groups for dtype, rate in chip.vector_ops_per_s.items()},
        levels=(share(sram, sram_bytes), share(llc, llc_bytes), share(dram, dram.capacity_bytes)),
        tiling=replace(unit, engines=unit.engines // mode.groups, loads=mode.loads or unit.loads),
    )


def at_tops(chip: Accelerator, tops: int) -> Accelerator:
    """Return the chip at another clock; its memories keep their rates."""
    return replace(
        chip,
        matrix_macs_per_s={dtype: rate * tops // QUOTED_TOPS for dtype, rate in chip.matrix_macs_per_s.items()},
        vector_ops_per_s={dtype: rate * tops // QUOTED_TOPS for dtype, rate in chip.vector_ops_per_s.items()},
    )


def task_of(mode: Mode, tops: int, model: CostModel) -> Task:
    """Return the task of one group."""
    return make_task(resnet50(mode.batch), group_of(at_tops(load_accelerator("nnp-i"), tops), mode), costs=model)


def images_per_s(mode: Mode, tops: int, model: CostModel) -> float:
    """Return the rate of all groups together, each placed by the native compiler."""
    return mode.groups * mode.batch / native_report(task_of(mode, tops, model)).latency_s


def slowest_images_per_s(mode: Mode, tops: int, model: CostModel) -> float:
    """Return the rate with everything in DRAM."""
    return mode.groups * mode.batch / all_backing_report(task_of(mode, tops, model)).latency_s


def bracket_table() -> Rows:
    """Return a row for each mode, under tiled costs."""
    rows = [
        [name, *(_beside(images_per_s(mode, tops, Tiled()), PUBLISHED[tops]) for tops in PUBLISHED)]
        for name, mode in BRACKET
    ]
    slowest = [_beside(slowest_images_per_s(THROUGHPUT, tops, Tiled()), PUBLISHED[tops]) for tops in PUBLISHED]
    rows.append(["six pairs, batch 4, everything in DRAM", *slowest])
    rows.append(["published", *(f"{rate:.0f}" for rate in PUBLISHED.values())])
    return as_rows(["images/s, tiled", *(f"{tops} TOPS" for tops in PUBLISHED)], rows)


def _beside(rate: float, published: float) -> str:
    return f"{rate:.0f} ({rate / published - 1:+.0%})"
