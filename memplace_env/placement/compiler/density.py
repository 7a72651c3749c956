"""Density-greedy: tensors go first that save most time per byte and per op for which they hold it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.placement.compiler.compile import place_levels
from memplace_env.placement.compiler.free_bytes import fill
from memplace_env.placement.compiler.in_place import pairs_of_tensors
from memplace_env.placement.compiler.placing_order import latency_ps, move_costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plans
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, TensorKind


class Variant(NamedTuple):
    """One way to score tensors.

    Attributes:
        life: how much the time counts for which bytes are held: a score is saved / (bytes * ops^life).
        missing: weight of what a tensor costs if it alone is not there, in its mean with what it saves if it alone is.
        repairs: how often tensors are scored anew by what they change in the levels found so far, and placed anew.
    """

    life: float
    missing: float
    repairs: int


VARIANTS = (
    *(Variant(life, missing, repairs) for repairs in (0, 3) for life in (1.0, 0.5) for missing in (0.5, 1.0)),
    *(Variant(0.0, missing, 3) for missing in (0.5, 1.0)),
)
"""Ten, the best one alone first; our choice, from trials on the registered workloads."""


class Trials:
    """Results of `move_costs` and `latency_ps` for a task, each computed once: variants often need the same."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._moves: dict[bytes, Ints] = {}
        self._latencies: dict[bytes, int] = {}

    def moves(self, level: Ints) -> Ints:
        """Return `move_costs`."""
        key = level.astype(np.int8).tobytes()
        if key not in self._moves:
            self._moves[key] = move_costs(self._task, level)
        return self._moves[key]

    def latency_ps(self, level: Ints) -> int:
        """Return `latency_ps`."""
        key = level.astype(np.int8).tobytes()
        if key not in self._latencies:
            self._latencies[key] = latency_ps(self._task, level)
        return self._latencies[key]


def density_levels(
    task: Task, variant: Variant = VARIANTS[0], trials: Trials | None = None, in_place: bool = True
) -> Ints:
    """Return int64[K], the level of each tensor: per level, fastest first, by falling score, wherever bytes have room.

    Addresses are not looked at: `place_levels` finds them, nearly always for everything. `trials` are those of other
    variants, if any. Unless `in_place`, every result has bytes of its own.
    """
    backing, trials = task.backing, trials or Trials(task)
    first, last = block_lives(task)
    held = task.program.tensor_bytes * (last - first + 1.0) ** variant.life
    level = np.full(task.program.num_tensors, backing)
    for fast in range(backing):
        free = task.allowed[:, fast] & task.program.is_placeable & (level == backing)
        alone = -trials.moves(level)[:, fast]
        missing = trials.moves(np.where(free, fast, level))[:, backing]
        saved = (1 - variant.missing) * alone + variant.missing * missing
        filled = _fill(task, level, fast, saved / held, in_place)
        best, best_ps = filled, trials.latency_ps(filled)
        for _ in range(variant.repairs):
            change = trials.moves(filled)
            saved = np.where(filled == fast, change[:, backing], -change[:, fast])
            filled = _fill(task, level, fast, saved / held, in_place)
            if trials.latency_ps(filled) < best_ps:
                best, best_ps = filled, trials.latency_ps(filled)
        level = best
    return level


@derived
def all_density_levels(task: Task) -> NDArray[np.int64]:
    """Return int64[10, K], the levels of all variants."""
    trials = Trials(task)
    return np.stack([density_levels(task, variant, trials) for variant in VARIANTS])


@derived
def density_greedy(task: Task) -> MemoryPlan:
    """Return the plan of the first variant's levels, the faster one of those with and without results in place."""
    each = [place_levels(task, density_levels(task, in_place=way), in_place=way) for way in ways(task)]
    return fastest_plan(task, [compiled.plan for compiled in each])


def ways(task: Task) -> tuple[bool, ...]:
    """Return whether results may take the place of operands in the plans to try: more freedom is not always faster."""
    return (True, False) if len(task.program.handovers) else (True,)


def fastest_plan(task: Task, plans: list[MemoryPlan]) -> MemoryPlan:
    """Return the first of the fastest plans."""
    if len(plans) == 1:
        return plans[0]
    latencies = [report.latency_ps for report in evaluate_plans(task, plans)]
    return plans[latencies.index(min(latencies))]


def _fill(task: Task, level: Ints, fast: int, score: NDArray[np.float64], in_place: bool) -> Ints:
    """Return `level` int[K] with tensors of a score above 0 moved from the backing memory to the level `fast`."""
    can = task.program.is_placeable & task.allowed[:, fast]
    gains = np.flatnonzero(can & (level == task.backing) & (score > 0))
    room = task.room_bytes(fast)[:-1]
    order = gains[np.argsort(-score[gains], kind="stable")]
    pairs = pairs_of_tensors(task.program, in_place)
    return np.where(fill(room, order, *block_lives(task), task.program.tensor_bytes, pairs), fast, level)


@derived
def block_lives(task: Task) -> tuple[Ints, Ints]:
    """Return int64[K] each, first and last op of each tensor's block; streamed weights come one op before their use."""
    first, last = task.program.live_start.copy(), task.program.live_end.copy()
    weight = task.program.tensor_kind == TensorKind.WEIGHT
    if task.streams_weights:
        first[weight] = np.maximum(first[weight] - 1, 0)
    else:
        first[weight], last[weight] = 0, task.program.num_ops - 1
    return first, last
