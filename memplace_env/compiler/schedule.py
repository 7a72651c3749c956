"""The order in which the compiler places tensors, as arrays for its kernels."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.simulator.costs import cost_tables
from memplace_env.workload.program import Ints, Program, TensorKind

Order = Literal["weights-before-results", "results-before-weights", "all-weights-first"]


class Schedule(NamedTuple):
    """Everything the kernels read, struct of arrays; W, R: weights and results that may leave the backing memory.

    Attributes:
        item_ptr: int32[T + 1], op t places the items `item_ptr[t]:item_ptr[t + 1]`.
        item_tensor: int32[W + R], tensors in the order they are placed.
        item_is_weight: bool[W + R].
        free_ptr: int32[T + 1]; after op t the results `free_tensor[free_ptr[t]:free_ptr[t + 1]]` are dead.
        free_tensor: int32[R].
        tensor_bytes: int64[K].
        live_end: int64[K], last op that touches the tensor.
        capacity: int64[L].
        use_ptr: int32[T + 1].
        use_tensor: int32[U].
        use_ps, use_pj: int64[U, L].
        compute_ps: int64[T].
        latency_ps: int64[L].
        prefetch_ps: int64[K].
        copy_pj: int64[K, L].
        overhead_ps, compute_pj: int.
        serial, streamed: bool.
    """

    item_ptr: NDArray[np.int32]
    item_tensor: NDArray[np.int32]
    item_is_weight: NDArray[np.bool_]
    free_ptr: NDArray[np.int32]
    free_tensor: NDArray[np.int32]
    tensor_bytes: Ints
    live_end: Ints
    capacity: Ints
    use_ptr: NDArray[np.int32]
    use_tensor: NDArray[np.int32]
    use_ps: Ints
    use_pj: Ints
    compute_ps: Ints
    latency_ps: Ints
    prefetch_ps: Ints
    copy_pj: Ints
    overhead_ps: int
    compute_pj: int
    serial: bool
    streamed: bool


def is_placeable(program: Program) -> NDArray[np.bool_]:
    """bool[K]: weights and inner results; graph inputs and outputs live in the backing memory."""
    return np.isin(program.tensor_kind, (TensorKind.WEIGHT, TensorKind.ACTIVATION))


def placeable_bytes(program: Program) -> int:
    """Bytes that a mapping decides about: the denominator of EGRL's epsilon."""
    return int(program.tensor_bytes[is_placeable(program)].sum())


@lru_cache(maxsize=64)
def schedule(program: Program, accelerator: Accelerator, order: Order = "weights-before-results") -> Schedule:
    """Weights are placed at the op that first reads them, results at the op that makes them.

    Within an op, `order` says which come first; "all-weights-first" places every resident weight before any result
    (streamed weights, which need time to arrive, keep their turn).
    """
    costs = cost_tables(program, accelerator)
    items = np.flatnonzero(is_placeable(program))
    weight = program.tensor_kind[items] == TensorKind.WEIGHT
    op = program.live_start[items]
    if order == "all-weights-first" and accelerator.weights == "resident":
        op = np.where(weight, 0, op)
    rank = weight if order == "results-before-weights" else ~weight
    sequence = np.lexsort((_first_use(program)[items], rank, op))
    results = items[~weight]
    dying = results[np.argsort(program.live_end[results], kind="stable")]
    return Schedule(
        item_ptr=_pointer(op[sequence], program.num_ops),
        item_tensor=items[sequence].astype(np.int32),
        item_is_weight=weight[sequence],
        free_ptr=_pointer(program.live_end[dying], program.num_ops),
        free_tensor=dying.astype(np.int32),
        tensor_bytes=program.tensor_bytes,
        live_end=program.live_end,
        capacity=np.array([level.capacity_bytes for level in accelerator.levels]),
        use_ptr=program.use_ptr.astype(np.int32),
        use_tensor=program.use_tensor.astype(np.int32),
        use_ps=costs.use_ps,
        use_pj=costs.use_pj,
        compute_ps=costs.compute_ps,
        latency_ps=costs.latency_ps,
        prefetch_ps=costs.prefetch_ps,
        copy_pj=costs.copy_pj,
        overhead_ps=costs.overhead_ps,
        compute_pj=int(costs.compute_pj.sum()),
        serial=costs.serial,
        streamed=accelerator.weights == "streamed",
    )


def _first_use(program: Program) -> Ints:
    """int64[K], number of the first use of each tensor: the order of placing within one op."""
    first = np.full(program.num_tensors, program.num_uses)
    np.minimum.at(first, program.use_tensor, np.arange(program.num_uses))
    return first


def _pointer(sorted_ops: Ints, num_ops: int) -> NDArray[np.int32]:
    return np.searchsorted(sorted_ops, np.arange(num_ops + 1)).astype(np.int32)
