"""The roofline: an op takes as long as its busiest unit needs at its effective peak.

Systolic arrays take cycles by closed forms of SCALE-Sim (Samajdar et al., 2018), which it agrees with exactly: a
product of [pixels, depth] x [depth, channels] is cut into folds that fill the array of rows x columns once each.
"""

from __future__ import annotations

from math import gcd
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.units import PS_PER_S, ceil_div
from memplace_env.machine.accelerator import Accelerator, Systolic
from memplace_env.machine.costs.cost_arrays import LIMIT_PJ, LIMIT_PS, Costs
from memplace_env.program.program import Ints, Program

INT64_MAX: Final = np.iinfo(np.int64).max


class Roofline:
    """Peaks and bandwidths as the chip's description gives them, every operand read once, nothing reserved.

    Compute takes the larger of MACs over the matrix peak and vector ops over the vector peak, on a systolic array at
    least its closed form; a use takes its bytes over the level's read or write bandwidth; a copy its tensor's bytes
    over the backing memory's derated bandwidth. All times are rounded up to picoseconds.
    """

    name = "roofline"

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the arrays.

        Raises:
            WorkloadError: if the accelerator has no unit for the program's dtype, or a time or an energy leaves int64.
        """
        check_unit(program, accelerator)
        dtype = program.dtype
        read_rate, write_rate = accelerator.dma_bytes_per_s
        picojoules = np.array([level.pj_per_byte for level in accelerator.levels])
        work_pj = program.macs * accelerator.mac_pj[dtype] + program.vector_ops * accelerator.vector_pj[dtype]
        return Costs(
            compute_ps=_compute_ps(program, accelerator),
            overhead_ps=np.full(program.num_ops, accelerator.op_overhead_ps, dtype=np.int64),
            use_ps=_use_ps(program, accelerator),
            latency_ps=np.array([level.latency_ps for level in accelerator.levels]),
            serial=accelerator.ports == "serial",
            prefetch_ps=ceil_ratio(program.tensor_bytes, PS_PER_S, read_rate),
            writeback_ps=ceil_ratio(program.tensor_bytes, PS_PER_S, write_rate),
            compute_pj=whole_pj(work_pj),
            use_pj=whole_pj(program.use_bytes[:, None] * picojoules),
            copy_pj=whole_pj(program.tensor_bytes[:, None] * (picojoules + picojoules[-1])),
            reserved_bytes=np.zeros((program.num_ops, accelerator.num_levels), dtype=np.int64),
        )


def check_unit(program: Program, accelerator: Accelerator) -> None:
    """Check that the chip computes in the program's dtype.

    Raises:
        WorkloadError: if not.
    """
    if program.dtype not in accelerator.matrix_macs_per_s:
        supported = ", ".join(repr(name) for name in accelerator.matrix_macs_per_s)
        raise WorkloadError(
            f"Accelerator {accelerator.name!r} has no {program.dtype} unit for {program.name!r}; pass a dtype of "
            f"{supported}."
        )


def ceil_ratio(amount: Ints, scale: int, rate: int) -> Ints:
    """Return int64, ceil(amount * scale / rate), exact: the product, or the amounts themselves, may leave int64.

    Raises:
        WorkloadError: if a result is beyond what the simulator counts.
    """
    common = gcd(scale, rate)
    scale, rate = scale // common, rate // common
    if (
        amount.dtype == np.int64
        and amount.min(initial=0) >= 0
        and max(int(amount.max(initial=0)) * scale, rate) < INT64_MAX
    ):
        ratios = ceil_div(amount * scale, rate)
    else:
        distinct, where = np.unique(amount, return_inverse=True)
        ratios = np.array([ceil_div(int(value) * scale, rate) for value in distinct], dtype=object)[where]
    if ratios.max(initial=0) > LIMIT_PS:
        raise WorkloadError("One op takes longer than the simulator counts; pass smaller dims or batch.")
    return ratios.astype(np.int64)


def whole_pj(values: NDArray[np.float64]) -> Ints:
    """Return the energies in whole picojoules, int64, rounded.

    Raises:
        WorkloadError: if an energy is beyond what the simulator counts.
    """
    if values.max(initial=0) > LIMIT_PJ:
        raise WorkloadError(
            "One op takes more energy than the simulator counts; pass smaller dims or batch, or a chip that takes less."
        )
    return np.rint(values).astype(np.int64)


def _compute_ps(program: Program, accelerator: Accelerator) -> Ints:
    compute = np.maximum(
        ceil_ratio(program.macs, PS_PER_S, accelerator.matrix_macs_per_s[program.dtype]),
        ceil_ratio(program.vector_ops, PS_PER_S, accelerator.vector_ops_per_s[program.dtype]),
    )
    if accelerator.systolic is None:
        return compute
    return np.maximum(compute, _systolic_ps(program.gemm, accelerator.systolic))


def _use_ps(program: Program, accelerator: Accelerator) -> Ints:
    columns = [
        np.where(
            program.use_is_result,
            ceil_ratio(program.use_bytes, PS_PER_S, level.write_bytes_per_s),
            ceil_ratio(program.use_bytes, PS_PER_S, level.read_bytes_per_s),
        )
        for level in accelerator.levels
    ]
    return np.stack(columns, axis=1)


def _systolic_ps(gemm: Ints, unit: Systolic) -> Ints:
    """Weight-stationary closed form of SCALE-Sim: ceil(K/R) ceil(N/C) folds of T (+ 2R + C - 2) cycles.

    With `fill="hidden"` a fold costs its T rows only: real units load the next weights while they multiply. The
    folds of all products spread over the arrays.
    """
    rows = gemm[:, 1].astype(object)
    cycles = fold_count(gemm, unit) * (rows + exposed_fill(unit)) * (rows > 0)
    return ceil_ratio(cycles, PS_PER_S, unit.arrays * unit.clock_hz)


def fill_cycles(rows: int, columns: int) -> int:
    """Return 2R + C - 2, the cycles of a weight-stationary fold to load weights, fill the array and drain it."""
    return 2 * rows + columns - 2


def exposed_fill(unit: Systolic) -> int:
    """Return the cycles of a weight-stationary fold beside those for its pixels: 0 where the fill is hidden."""
    return 0 if unit.fill == "hidden" else fill_cycles(unit.rows, unit.columns)


def fold_count(gemm: Ints, unit: Systolic) -> Ints:
    """Return object[T], exact: weight-stationary folds of each op, ceil(K/R) ceil(N/C) for each of its products.

    Args:
        gemm: int64[T, 4], see `Program.gemm`.
        unit: the array.
    """
    count, _, depth, columns = gemm.astype(object).T
    return np.asarray(count * ceil_div(depth, unit.rows) * ceil_div(columns, unit.columns))


def scale_sim_cycles(
    product: tuple[int, int, int], array: tuple[int, int], dataflow: Literal["weights", "outputs"]
) -> int:
    """Return the cycles of SCALE-Sim without memory stalls, each fold's fill and drain exposed.

    Args:
        product: pixels, depth, channels.
        array: rows, columns.
        dataflow: the operand that stays in the array while the rest streams past it.
    """
    pixels, depth, channels = product
    rows, columns = array
    if dataflow == "weights":
        folds, cycles = ceil_div(depth, rows) * ceil_div(channels, columns), pixels + fill_cycles(rows, columns)
    else:
        folds, cycles = ceil_div(pixels, rows) * ceil_div(channels, columns), depth + rows + columns - 2
    return folds * cycles - 1
