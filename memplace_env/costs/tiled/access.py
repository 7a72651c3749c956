"""What short runs and few requests cost at a memory: from moved bytes to the time of its port."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator, MemoryLevel
from memplace_env.accelerator.tiling import Access
from memplace_env.costs.roofline import ceil_ratio
from memplace_env.costs.tiled.tiling import Requests, Tiling, ceil_div, counted
from memplace_env.units import PS_PER_S
from memplace_env.workload.program import Ints, Program

REACHED = Fraction(4, 5)
"""Share of the requests that a port allows, and of the bandwidth that they give, which are reached: a convention of
ethos-u-vela 5.2.0."""


def use_times(tiling: Tiling, program: Program, accelerator: Accelerator) -> Ints:
    """int64[U, L], time of each level's port, in ps, that each use takes there."""
    columns = [_level_times(tiling, program, level, index > 0) for index, level in enumerate(accelerator.levels)]
    return np.stack(columns, axis=1)


def moved_bytes(tiling: Tiling, program: Program, slow: bool) -> Ints:
    """int64[U], bytes that each use moves at the fastest level or, `slow`, at any other."""
    if slow and tiling.staged is not None:
        return np.where(tiling.staged, program.use_bytes, tiling.moved_bytes)
    return tiling.moved_bytes


def _level_times(tiling: Tiling, program: Program, level: MemoryLevel, slow: bool) -> Ints:
    moved, writes = moved_bytes(tiling, program, slow), program.use_is_result
    rates = np.where(writes, level.write_bytes_per_s, level.read_bytes_per_s)
    if level.access is None:
        return _times(moved, rates)
    burst, pairs = level.access.burst_bytes, zip(moved.tolist(), tiling.run_bytes.tolist(), strict=True)
    carried = counted([ceil_div(size * burst, min(run, burst)) for size, run in pairs])
    if tiling.requests is None:
        return _times(carried, rates)
    asked = tiling.requests.bytes
    if slow and tiling.staged is not None:
        asked = np.where(tiling.staged, tiling.requests.staging_bytes, asked)
    alone = _times(carried, np.minimum(rates, requested_rates(level.access, asked, writes)))
    return _hidden(alone, _times(carried, rates), tiling.requests)


def requested_rates(access: Access, asked: Ints, writes: NDArray[np.bool_]) -> Ints:
    """int64[U], bytes/s that requests under way at once can reach: their bytes over the latency of one.

    Args:
        access: of the memory.
        asked: int64[U], bytes that can be asked for on behalf of each use, 0 for no bound.
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


def _hidden(alone: Ints, bytes_only: Ints, requests: Requests) -> Ints:
    """Times in which, of two uses whose requests run beside each other, the longer pays the time of both.

    They end together, so that both together take the longer one's time, and the bytes of the other.
    """
    times = alone.copy()
    (second,) = np.nonzero(requests.beside >= 0)
    first = requests.beside[second]
    longer = alone[second] >= alone[first]
    times[first] = np.where(longer, bytes_only[first], alone[first])
    times[second] = np.where(longer, alone[second], bytes_only[second])
    return times


def _times(amount: Ints, rates: Ints) -> Ints:
    """int64[U], ps for so many bytes at so many bytes/s."""
    times = np.empty(len(amount), dtype=np.int64)
    for rate in np.unique(rates):
        times[rates == rate] = ceil_ratio(amount[rates == rate], PS_PER_S, int(rate))
    return times
