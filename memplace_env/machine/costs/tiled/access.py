"""Costs of short runs and few requests at a memory: from moved bytes to the time of its port."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS_PER_S, ceil_div
from memplace_env.machine.accelerator import Accelerator, MemoryLevel
from memplace_env.machine.accelerator.tiling_description import Access
from memplace_env.machine.costs.roofline import ceil_ratio
from memplace_env.machine.costs.tiled.tiling_form import Tiling, counted
from memplace_env.program.program import Ints, Program

REACHED = Fraction(4, 5)
"""Fraction of the requests that a port allows, and of the bandwidth that they give, which is reached: a convention of
ethos-u-vela 5.2.0."""


def use_times(tiling: Tiling, moved: Ints, program: Program, accelerator: Accelerator) -> Ints:
    """int64[U, L], time of each level's port, in ps, that each use takes there; `moved` is that of `moved_bytes`."""
    columns = [
        _level_times(tiling, moved[:, index], program, level, index) for index, level in enumerate(accelerator.levels)
    ]
    return np.stack(columns, axis=1)


def moved_bytes(tiling: Tiling, accelerator: Accelerator) -> Ints:
    """int64[U, L], bytes that each use moves if that level serves it; bursts move whole."""
    return np.stack([_whole_bursts(tiling, level, index) for index, level in enumerate(accelerator.levels)], axis=1)


def _whole_bursts(tiling: Tiling, level: MemoryLevel, index: int) -> Ints:
    moved = tiling.moved_bytes if tiling.moved_bytes.ndim == 1 else tiling.moved_bytes[:, index]
    if level.access is None:
        return moved
    burst, pairs = level.access.burst_bytes, zip(moved.tolist(), tiling.run_bytes.tolist(), strict=True)
    return counted([ceil_div(size * burst, min(run, burst)) for size, run in pairs])


def _level_times(tiling: Tiling, moved: Ints, program: Program, level: MemoryLevel, index: int) -> Ints:
    writes = program.use_is_result
    rates = np.where(writes, level.write_bytes_per_s, level.read_bytes_per_s)
    if level.access is None or tiling.requests is None:
        return _times(moved, rates)
    asked = tiling.requests.bytes
    if index and tiling.staged is not None:
        asked = np.where(tiling.staged, tiling.requests.staging_bytes, asked)
    alone = _times(moved, np.minimum(rates, requested_rates(level.access, asked, writes)))
    return overlapped(alone, _times(moved, rates), tiling.requests.together, program.use_op)


def requested_rates(access: Access, asked: Ints, writes: NDArray[np.bool_]) -> Ints:
    """int64[U], bytes/s that requests under way at once can reach: their bytes over the latency of one.

    Args:
        access: properties of accesses to the memory.
        asked: int64[U], bytes that can be under request for each use, 0 for no bound.
        writes: bool[U].
    """
    rates = np.zeros(len(asked), dtype=np.int64)
    for most, write in {(int(most), bool(write)) for most, write in zip(asked, writes, strict=True)}:
        outstanding, latency_ps = (
            (access.outstanding_writes, access.write_latency_ps)
            if write
            else (access.outstanding_reads, access.read_latency_ps)
        )
        requests: Fraction = REACHED * access.ports * outstanding
        if most:
            requests = min(requests, Fraction(most, access.burst_bytes))
        rate = REACHED * requests * access.burst_bytes * PS_PER_S // max(1, latency_ps)
        rates[(asked == most) & (writes == write)] = min(max(1, rate), 2**62)
    return rates


def overlapped(alone: Ints, bytes_only: Ints, together: NDArray[np.bool_], op: Ints) -> Ints:
    """int64[U], times in which the uses that an op makes together wait beside each other for what they requested.

    Together they take as long as their bytes, and as the longest of them alone: that one pays what it waits beyond the
    bytes of the others.

    Args:
        alone: int64[U], ps of each use if it were the only one.
        bytes_only: int64[U], ps that its bytes take, at most `alone`.
        together: bool[U].
        op: int64[U], the op of each use.
    """
    (uses,) = np.nonzero(together)
    order = uses[np.lexsort((-alone[uses], op[uses]))]
    longest = order[np.unique(op[order], return_index=True)[1]]
    total = np.zeros(int(op.max(initial=0)) + 1, dtype=np.int64)
    np.add.at(total, op[uses], bytes_only[uses])
    times = np.where(together, bytes_only, alone)
    times[longest] += np.maximum(0, alone[longest] - total[op[longest]])
    return times


def _times(amount: Ints, rates: Ints) -> Ints:
    """int64[U], ps for so many bytes at so many bytes/s."""
    times = np.empty(len(amount), dtype=np.int64)
    for rate in np.unique(rates):
        times[rates == rate] = ceil_ratio(amount[rates == rate], PS_PER_S, int(rate))
    return times
