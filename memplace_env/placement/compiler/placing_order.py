"""The time that a level saves a tensor, and the order in which the compiler places them, as arrays for its kernels."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs import Costs, op_times
from memplace_env.machine.costs.op_time_kernels import moved_alone, used_by_level
from memplace_env.placement.compiler.block_neighbours import MOST_PAIRS, neighbours_of, no_lists
from memplace_env.placement.compiler.in_place import Pairs, pairs_of
from memplace_env.placement.roles import asked_levels, next_levels
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, TensorKind


def latency_ps(task: Task, level: NDArray[np.integer]) -> int:
    """Return the latency with every tensor in its level int[K], if no copies were needed."""
    program, costs = task.program, task.costs
    used = used_by_level(program.use_ptr, level[program.use_tensor], costs.use_ps)
    return int(op_times(costs, used).op_ps.sum())


def move_costs(task: Task, level: NDArray[np.integer]) -> Ints:
    """Return int64[K, L], picoseconds by which the program gets slower if one tensor alone moves to another level.

    Args:
        task: the task; its cost arrays are read, also where a simulator evaluates plans.
        level: int[K], the level that each tensor has.
    """
    program = task.program
    levels = level.astype(np.int64)
    moved: Ints = moved_alone(task.costs, program.use_ptr, program.use_tensor, levels, program.num_tensors)
    return moved


@derived
def saved_per_byte(task: Task) -> NDArray[np.float64]:
    """Return float64[K], picoseconds that a byte of each tensor in the fastest level saves against the backing memory.

    The mean of what it saves if it alone is there, and of what it costs if it alone is not: where an op waits for the
    slowest of its ports, either one alone means little.
    """
    tensors = task.program.num_tensors
    alone = -move_costs(task, np.full(tensors, task.backing))[:, 0]
    missing = move_costs(task, np.zeros(tensors, dtype=np.int64))[:, task.backing]
    density: NDArray[np.float64] = (alone + missing) / (2 * task.program.tensor_bytes)
    return density


Order = Literal["weights-before-results", "results-before-weights", "all-weights-first", "all-results-first", "by-size"]
ORDERS: tuple[Order, ...] = get_args(Order)
Near: TypeAlias = tuple[Ints, Ints, NDArray[np.uint32]]
"""Lists of the blocks alive together, as `neighbours_of` returns them."""


class Schedule(NamedTuple):
    """Everything the kernels read, struct of arrays; W, R: weights and results that may leave the backing memory.

    Attributes:
        item_tensor: uint32[W + R], tensors in the order in which they are granted bytes.
        item_is_weight: bool[W + R], weights that stack at the top of a level, or have to arrive: none where weights are
            resident and offsets are pinned.
        in_order: whether results come in the order in which they are made, and none takes an operand's place.
        item_ptr: int32[T + 2]; the items before `item_ptr[1]` come before op 0, those in
            `item_ptr[t + 1]:item_ptr[t + 2]` when op t is reached, which matters where weights have to arrive.
        by_rank: uint32[N], tensors that need addresses, by rank (`packing`): the results, and streamed weights.
        blocks: their bytes, first and last op of their lives, int64[N] each, and pinned offsets, as for `pack_level`.
        near: `neighbours_of` these, unless weights are streamed: then lives depend on the levels.
        crowded: whether so many of them are alive together that `neighbours_of` gives up.
        pairs: results that may take the place of operands.
        tensor_bytes: int64[K].
        live_start, live_end: int64[K], first and last op that touches the tensor; all ops for resident weights where
            offsets are pinned.
        capacity: int64[L], bytes, whole units of the alignment.
        asked_level: int64[K, L], the level that a request for each one begins with, see `roles.asked_levels`.
        next_level: int64[K, L], of the levels that a tensor may lie in the fastest from each one on.
        any_reserved: whether an op keeps bytes of a level for itself.
        use_ptr: uint32[T + 1].
        use_tensor: uint32[U].
        costs: those of the task.
        all_compute_pj: energy of all compute.
        streamed: whether weights start in the backing memory.
    """

    item_tensor: NDArray[np.uint32]
    item_is_weight: NDArray[np.bool_]
    in_order: bool
    item_ptr: NDArray[np.int32]
    by_rank: NDArray[np.uint32]
    blocks: tuple[Ints, Ints, Ints, Ints]
    near: Near
    crowded: bool
    pairs: Pairs
    tensor_bytes: Ints
    live_start: Ints
    live_end: Ints
    capacity: Ints
    asked_level: Ints
    next_level: Ints
    any_reserved: bool
    use_ptr: NDArray[np.uint32]
    use_tensor: NDArray[np.uint32]
    costs: Costs
    all_compute_pj: int
    streamed: bool


@derived
def schedule_of(task: Task, order: Order, in_place: bool = True) -> Schedule:
    """Return the schedule in which tensors are granted bytes in this order.

    Weights come at the op that first reads them, results at the op that makes them; "weights-before-results" and
    "results-before-weights" differ in which come first within an op. "all-weights-first" puts every resident weight
    before any result (streamed weights, which need time to arrive, always keep their turn); "all-results-first" puts
    every result before any weight; "by-size" does so too, with results by falling size and resident weights by the
    time that a byte of them saves. Results that may not lie in the backing memory come before everything else, first
    those with a pinned offset. Unless `in_place`, every result has bytes of its own.
    """
    program, costs = task.program, task.costs
    items = np.flatnonzero(program.is_placeable)
    weight = program.tensor_kind[items] == TensorKind.WEIGHT
    turn, within = program.live_start[items] + 1, weight if order == "results-before-weights" else ~weight
    if order in ("all-results-first", "by-size"):
        turn = np.where(weight, turn if task.streams_weights else program.num_ops, 0)
    elif order == "all-weights-first" and not task.streams_weights:
        turn = np.where(weight, 0, turn)
    must = task.must_leave[items] & ~weight
    free, life = task.pinned < 0, _lives(task)
    turn = np.where(must | (~free[items] & (not task.streams_weights)), 0, turn)
    urgency = np.zeros(len(items))
    if order == "by-size":
        urgency = np.where(weight, saved_per_byte(task)[items], program.tensor_bytes[items])
    sequence = np.lexsort((program.first_use[items], program.live_start[items], -urgency, within, free[items], turn))
    by_rank, blocks, near, crowded = _ranked(task)
    pairs = pairs_of(task, by_rank, in_place)
    costs = costs._replace(reserved_bytes=task.kept_bytes)
    return Schedule(
        item_tensor=items[sequence].astype(np.uint32),
        item_is_weight=weight[sequence] & (task.streams_weights or free.all()),
        in_order=order != "by-size" and bool(free.all()) and not len(pairs.giver) and len(np.unique(must[~weight])) < 2,
        item_ptr=np.searchsorted(turn[sequence], np.arange(program.num_ops + 2)).astype(np.int32),
        by_rank=by_rank,
        blocks=blocks,
        near=near,
        crowded=crowded,
        pairs=pairs,
        tensor_bytes=program.tensor_bytes,
        live_start=life[0],
        live_end=life[1],
        capacity=task.capacities,
        asked_level=asked_levels(task.allowed),
        next_level=next_levels(task.allowed),
        any_reserved=bool(costs.reserved_bytes.any()),
        use_ptr=program.use_ptr.astype(np.uint32),
        use_tensor=program.use_tensor.astype(np.uint32),
        costs=costs,
        all_compute_pj=int(costs.compute_pj.sum()),
        streamed=task.streams_weights,
    )


@derived
def _ranked(task: Task) -> tuple[NDArray[np.uint32], tuple[Ints, Ints, Ints, Ints], Near, bool]:
    """Return `by_rank`, `blocks`, `near` and `crowded` of every order's schedule."""
    program, free, life = task.program, task.pinned < 0, _lives(task)
    stacked = (program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights) & free.all()
    needs = program.is_placeable & ~stacked
    by_rank = np.flatnonzero(needs)
    by_rank = by_rank[np.lexsort((by_rank, life[0][by_rank], -program.tensor_bytes[by_rank], free[by_rank]))]
    (first, last), pin = np.ascontiguousarray(life[:, by_rank]), task.pinned[by_rank[~free[by_rank]]]
    # Each block meets all that began before it, in whatever order, but those that ended before it began.
    met = np.arange(len(first)) - np.searchsorted(np.sort(last), np.sort(first))
    crowded = bool(met.sum() > MOST_PAIRS)
    listed = not crowded and not task.streams_weights
    near = neighbours_of(first, last, np.full(len(first), listed)) if listed else no_lists(len(first))
    return by_rank.astype(np.uint32), (program.tensor_bytes[by_rank], first, last, pin), near, crowded


def _lives(task: Task) -> Ints:
    """Return `live_start` and `live_end` of schedules, int64[2, K]."""
    program = task.program
    always = (program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights) & (task.pinned >= 0).any()
    first, last = np.where(always, 0, program.live_start), np.where(always, program.num_ops - 1, program.live_end)
    return np.stack([first, last])
