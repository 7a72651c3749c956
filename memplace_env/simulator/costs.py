"""Integer cost tables of one program on one accelerator: the numbers that every kernel adds up."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator, Systolic
from memplace_env.errors import WorkloadError
from memplace_env.workload.program import Ints, Program

PS_PER_S = 10**12
_LIMIT_PS = 2**60


class Costs(NamedTuple):
    """Times in integer picoseconds, energies in integer picojoules.

    Attributes:
        compute_ps: int64[T], time of each op if memory were free.
        use_ps: int64[U, L], port time of each use when served at each level.
        latency_ps: int64[L], paid once by an op that touches the level.
        overhead_ps: added to every op.
        serial: whether the levels' port times add up within an op.
        prefetch_ps, writeback_ps: int64[K], what a copy of the tensor needs of the backing memory's port.
        compute_pj: int64[T].
        use_pj: int64[U, L].
        copy_pj: int64[K, L], a copy of the tensor between that level and the backing memory.
    """

    compute_ps: Ints
    use_ps: Ints
    latency_ps: Ints
    overhead_ps: int
    serial: bool
    prefetch_ps: Ints
    writeback_ps: Ints
    compute_pj: Ints
    use_pj: Ints
    copy_pj: Ints


@lru_cache(maxsize=64)
def cost_tables(program: Program, accelerator: Accelerator) -> Costs:
    """Build the tables.

    Raises:
        WorkloadError: if the accelerator has no unit for the program's dtype, or the times leave int64.
    """
    dtype = program.dtype
    if dtype not in accelerator.matrix_macs_per_s:
        supported = ", ".join(repr(name) for name in accelerator.matrix_macs_per_s)
        raise WorkloadError(
            f"Accelerator {accelerator.name!r} has no {dtype} unit for {program.name!r}; pass a dtype of {supported}."
        )
    compute = np.maximum(
        ceil_ratio(program.macs, PS_PER_S, accelerator.matrix_macs_per_s[dtype]),
        ceil_ratio(program.vector_ops, PS_PER_S, accelerator.vector_ops_per_s[dtype]),
    )
    if accelerator.systolic is not None:
        compute = np.maximum(compute, _systolic_ps(program.gemm, accelerator.systolic))
    use_ps = np.stack(
        [
            np.where(
                program.use_is_result,
                ceil_ratio(program.use_bytes, PS_PER_S, level.write_bytes_per_s),
                ceil_ratio(program.use_bytes, PS_PER_S, level.read_bytes_per_s),
            )
            for level in accelerator.levels
        ],
        axis=1,
    )
    latency = np.array([level.latency_ps for level in accelerator.levels])
    read_rate, write_rate = accelerator.dma_bytes_per_s
    copies = [ceil_ratio(program.tensor_bytes, PS_PER_S, rate) for rate in (read_rate, write_rate)]
    worst = compute.sum(dtype=object) + use_ps.sum(dtype=object) + 2 * sum(c.sum(dtype=object) for c in copies)
    worst += program.num_ops * (int(latency.sum()) + accelerator.op_overhead_ps)
    if worst > _LIMIT_PS:
        raise WorkloadError(
            f"{program.name!r} takes over {_LIMIT_PS // PS_PER_S // 3600} hours on {accelerator.name!r}, more than "
            "the simulator counts; pass smaller dims or batch."
        )
    picojoules = np.array([level.pj_per_byte for level in accelerator.levels])
    return Costs(
        compute_ps=compute,
        use_ps=np.ascontiguousarray(use_ps),
        latency_ps=latency,
        overhead_ps=accelerator.op_overhead_ps,
        serial=accelerator.ports == "serial",
        prefetch_ps=copies[0],
        writeback_ps=copies[1],
        compute_pj=_round(program.macs * accelerator.mac_pj[dtype] + program.vector_ops * accelerator.vector_pj[dtype]),
        use_pj=_round(program.use_bytes[:, None] * picojoules),
        copy_pj=_round(program.tensor_bytes[:, None] * (picojoules + picojoules[-1])),
    )


def ceil_ratio(amount: Ints, scale: int, rate: int) -> Ints:
    """int64 of ceil(amount * scale / rate), exact: the product may leave int64 on the way.

    Raises:
        WorkloadError: if a result is beyond what the simulator counts.
    """
    distinct, where = np.unique(amount, return_inverse=True)
    exact = [-(-int(value) * scale // rate) for value in distinct]
    if exact and max(exact) > _LIMIT_PS:
        raise WorkloadError("One op takes longer than the simulator counts; pass smaller dims or batch.")
    return np.array(exact, dtype=np.int64)[where]


def _systolic_ps(gemm: Ints, unit: Systolic) -> Ints:
    """Weight-stationary closed form of SCALE-Sim: ceil(K/R) ceil(N/C) folds of T (+ 2R + C - 2) cycles.

    With `fill="hidden"` a fold costs its T rows only: real units load the next weights while they multiply. The
    folds of all products spread over the arrays.
    """
    count, rows, depth, columns = gemm.astype(object).T
    folds = count * -(-depth // unit.rows) * -(-columns // unit.columns)
    fill = 0 if unit.fill == "hidden" else 2 * unit.rows + unit.columns - 2
    cycles = folds * (rows + fill) * (rows > 0)
    exact = -(-cycles * PS_PER_S // (unit.arrays * unit.clock_hz))
    if exact.max() > _LIMIT_PS:
        raise WorkloadError("One op takes longer than the simulator counts; pass smaller dims or batch.")
    return np.asarray(exact, dtype=np.int64)


def _round(values: NDArray[np.float64]) -> Ints:
    return np.rint(values).astype(np.int64)
