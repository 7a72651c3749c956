"""The arrays of the roofline and of measured costs, number by number with exact fractions: what `costs.Roofline` and
`costs.Measured` are held equal to."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from memplace_env._lib.units import PS_PER_S
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import Costs, op_key
from memplace_env.program.program import Program


def roofline(program: Program, accelerator: Accelerator) -> Costs:
    """Return what `Roofline().costs` must return."""
    ops, tensors, uses = range(program.num_ops), range(program.num_tensors), range(program.num_uses)
    levels = range(accelerator.num_levels)
    return Costs(
        compute_ps=np.array([compute_ps(program, accelerator, op) for op in ops], dtype=np.int64),
        overhead_ps=np.array([accelerator.op_overhead_ps for _ in ops], dtype=np.int64),
        use_ps=_table([[use_ps(program, accelerator, use, level) for level in levels] for use in uses], len(levels)),
        latency_ps=np.array([level.latency_ps for level in accelerator.levels], dtype=np.int64),
        serial=accelerator.ports == "serial",
        prefetch_ps=np.array([copy_ps(program, accelerator, k, prefetch=True) for k in tensors], dtype=np.int64),
        writeback_ps=np.array([copy_ps(program, accelerator, k, prefetch=False) for k in tensors], dtype=np.int64),
        compute_pj=np.array([compute_pj(program, accelerator, op) for op in ops], dtype=np.int64),
        use_pj=_table([[use_pj(program, accelerator, use, level) for level in levels] for use in uses], len(levels)),
        copy_pj=_table([[copy_pj(program, accelerator, k, level) for level in levels] for k in tensors], len(levels)),
        reserved_bytes=np.zeros((len(ops), len(levels)), dtype=np.int64),
    )


def measured(program: Program, accelerator: Accelerator) -> Costs:
    """Return what `Measured().costs` must return on a chip with the times of all ops."""
    times = accelerator.measured
    assert times is not None
    ops, tensors, uses = range(program.num_ops), range(program.num_tensors), range(program.num_uses)
    fast, copy = [1] * accelerator.backing, times.copy_latency_ps
    level = accelerator.levels[-1]
    bus = []
    for use in uses:
        rate = level.write_bytes_per_s if program.use_is_result[use] else level.read_bytes_per_s
        size = int(program.tensor_bytes[program.use_tensor[use]])
        bus.append(copy + ceil(Fraction(size * PS_PER_S, rate)))
    fetched, brought = (
        [copy + copy_ps(program, accelerator, tensor, prefetch=prefetch) for tensor in tensors]
        for prefetch in (True, False)
    )
    levels = accelerator.num_levels
    return Costs(
        compute_ps=np.array([0 for _ in ops], dtype=np.int64),
        overhead_ps=np.array([times.op_ps[op_key(program, op)] for op in ops], dtype=np.int64),
        use_ps=_table([[*fast, time] for time in bus], levels),
        latency_ps=np.array([0] * levels, dtype=np.int64),
        serial=True,
        prefetch_ps=np.array(fetched, dtype=np.int64),
        writeback_ps=np.array(brought, dtype=np.int64),
        compute_pj=np.array([0 for _ in ops], dtype=np.int64),
        use_pj=_table([[0] * levels for _ in uses], levels),
        copy_pj=_table([[0] * levels for _ in tensors], levels),
        reserved_bytes=_table([[0] * levels for _ in ops], levels),
    )


def compute_ps(program: Program, accelerator: Accelerator, op: int) -> int:
    """Picoseconds of an op if memory were free."""
    matrix = ceil(Fraction(int(program.macs[op]) * PS_PER_S, accelerator.matrix_macs_per_s[program.dtype]))
    vector = ceil(Fraction(int(program.vector_ops[op]) * PS_PER_S, accelerator.vector_ops_per_s[program.dtype]))
    array = 0
    if accelerator.systolic:
        unit = accelerator.systolic
        count, rows, depth, columns = map(int, program.gemm[op])
        fill = 2 * unit.rows + unit.columns - 2 if unit.fill == "exposed" else 0
        cycles = count * ceil(Fraction(depth, unit.rows)) * ceil(Fraction(columns, unit.columns)) * (rows + fill)
        array = ceil(Fraction(cycles * PS_PER_S, unit.arrays * unit.clock_hz)) if rows else 0
    return max(matrix, vector, array)


def use_ps(program: Program, accelerator: Accelerator, use: int, level: int) -> int:
    """Picoseconds that a use keeps a level's port busy."""
    memory = accelerator.levels[level]
    rate = memory.write_bytes_per_s if program.use_is_result[use] else memory.read_bytes_per_s
    return ceil(Fraction(int(program.use_bytes[use]) * PS_PER_S, rate))


def copy_ps(program: Program, accelerator: Accelerator, tensor: int, *, prefetch: bool) -> int:
    """Picoseconds of the backing memory's port that a copy of the tensor needs."""
    memory, share = accelerator.levels[-1], Fraction(str(accelerator.dma_efficiency))
    rate = memory.read_bytes_per_s if prefetch else memory.write_bytes_per_s
    return ceil(Fraction(int(program.tensor_bytes[tensor]) * PS_PER_S, int(rate * share)))


def compute_pj(program: Program, accelerator: Accelerator, op: int) -> int:
    """Picojoules of an op's work."""
    matrix = int(program.macs[op]) * accelerator.mac_pj[program.dtype]
    return round(matrix + int(program.vector_ops[op]) * accelerator.vector_pj[program.dtype])


def use_pj(program: Program, accelerator: Accelerator, use: int, level: int) -> int:
    """Picojoules that serving a use from a level takes."""
    return round(int(program.use_bytes[use]) * accelerator.levels[level].pj_per_byte)


def copy_pj(program: Program, accelerator: Accelerator, tensor: int, level: int) -> int:
    """Picojoules of a copy between a level and the backing memory: a byte is moved at both ends."""
    near, far = (accelerator.levels[index].pj_per_byte for index in (level, -1))
    return round(int(program.tensor_bytes[tensor]) * (near + far))


def _table(rows: list[list[int]], columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
