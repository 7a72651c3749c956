"""The order in which the compiler places tensors, as arrays for its kernels."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.task import Task, derived
from memplace_env.workload.program import Ints, TensorKind

Order = Literal["weights-before-results", "results-before-weights", "all-weights-first"]
ORDERS: tuple[Order, ...] = ("weights-before-results", "results-before-weights", "all-weights-first")


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
        capacity: int64[L], bytes.
        any_reserved: whether an op keeps bytes of a level for itself.
        use_ptr: int32[T + 1].
        use_tensor: int32[U].
        compute_ps, overhead_ps, use_ps, latency_ps, serial, prefetch_ps, use_pj, copy_pj, reserved_bytes: as in
            `Costs`; flat, as numba counts references whenever a kernel takes a tuple out of a tuple.
        compute_pj: energy of all compute.
        streamed: whether weights start in the backing memory.
    """

    item_ptr: NDArray[np.int32]
    item_tensor: NDArray[np.int32]
    item_is_weight: NDArray[np.bool_]
    free_ptr: NDArray[np.int32]
    free_tensor: NDArray[np.int32]
    tensor_bytes: Ints
    live_end: Ints
    capacity: Ints
    any_reserved: bool
    use_ptr: NDArray[np.int32]
    use_tensor: NDArray[np.int32]
    compute_ps: Ints
    overhead_ps: Ints
    use_ps: Ints
    latency_ps: Ints
    serial: bool
    prefetch_ps: Ints
    use_pj: Ints
    copy_pj: Ints
    reserved_bytes: Ints
    compute_pj: int
    streamed: bool


@derived
def schedule_of(task: Task, order: Order) -> Schedule:
    """Weights are placed at the op that first reads them, results at the op that makes them.

    Within an op, `order` says which come first; "all-weights-first" places every resident weight before any result
    (streamed weights, which need time to arrive, keep their turn).
    """
    program, costs = task.program, task.costs
    items = np.flatnonzero(program.is_placeable)
    weight = program.tensor_kind[items] == TensorKind.WEIGHT
    op = program.live_start[items]
    if order == "all-weights-first" and not task.streams_weights:
        op = np.where(weight, 0, op)
    rank = weight if order == "results-before-weights" else ~weight
    sequence = np.lexsort((program.first_use[items], rank, op))
    results = items[~weight]
    dying = results[np.argsort(program.live_end[results], kind="stable")]
    capacity = np.array([level.capacity_bytes for level in task.accelerator.levels])
    return Schedule(
        item_ptr=_pointer(op[sequence], program.num_ops),
        item_tensor=items[sequence].astype(np.int32),
        item_is_weight=weight[sequence],
        free_ptr=_pointer(program.live_end[dying], program.num_ops),
        free_tensor=dying.astype(np.int32),
        tensor_bytes=program.tensor_bytes,
        live_end=program.live_end,
        capacity=capacity,
        any_reserved=bool(costs.reserved_bytes.any()),
        use_ptr=program.use_ptr.astype(np.int32),
        use_tensor=program.use_tensor.astype(np.int32),
        compute_ps=costs.compute_ps,
        overhead_ps=costs.overhead_ps,
        use_ps=costs.use_ps,
        latency_ps=costs.latency_ps,
        serial=costs.serial,
        prefetch_ps=costs.prefetch_ps,
        use_pj=costs.use_pj,
        copy_pj=costs.copy_pj,
        reserved_bytes=costs.reserved_bytes,
        compute_pj=int(costs.compute_pj.sum()),
        streamed=task.streams_weights,
    )


def _pointer(sorted_ops: Ints, num_ops: int) -> NDArray[np.int32]:
    return np.searchsorted(sorted_ops, np.arange(num_ops + 1)).astype(np.int32)
