"""Plans without search: the native compiler that every speed-up is against, and weaker rules beside it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memplace_env.compiler.compile import place_mapping, plan_of_levels
from memplace_env.compiler.density import density_greedy
from memplace_env.compiler.schedule import Order
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report, judge_plan, judge_plans
from memplace_env.task import Task, derived
from memplace_env.workload.program import Ints, TensorKind

NATIVE_ORDERS: tuple[Order, ...] = ("weights-before-results", "results-before-weights", "all-results-first")
"""Orders that native tries: op by op, weights or results first, and all results before all weights."""


@derived
def native_plan(task: Task) -> MemoryPlan:
    """The compiler's own plan, see `memplace_env.native`."""
    mapping = native_mapping(task)
    plans = [place_mapping(task, mapping, order).plan for order in NATIVE_ORDERS]
    latencies = [report.latency_ps for report in judge_plans(task, plans)]
    return plans[latencies.index(min(latencies))]


@derived
def native_report(task: Task) -> Report:
    """What the baseline of all speed-ups costs."""
    return judge_plan(task, native_plan(task), trusted=True)


@derived
def weights_first(task: Task) -> MemoryPlan:
    """All weights, but tables, into the fastest levels with room before any result gets a place."""
    return place_mapping(task, native_mapping(task), "all-weights-first").plan


@derived
def results_first(task: Task) -> MemoryPlan:
    """Every result into the fastest level with room, all weights in the backing memory."""
    weight = task.program.tensor_kind == TensorKind.WEIGHT
    return place_mapping(task, np.where(weight, task.backing, 0)).plan


@derived
def all_fastest(task: Task) -> MemoryPlan:
    """Everything asks for the fastest level: results by falling size, then weights by the time that a byte saves.

    What a careful compiler does without any search.
    """
    return place_mapping(task, np.zeros(task.program.num_tensors, dtype=np.int64), "by-size").plan


@derived
def all_backing(task: Task) -> MemoryPlan:
    """Everything in the backing memory."""
    tensors = task.program.num_tensors
    return plan_of_levels(task, np.full(tensors, task.backing), np.zeros(tensors, dtype=np.int64))


@derived
def all_backing_report(task: Task) -> Report:
    """What the baseline of games costs."""
    return judge_plan(task, all_backing(task), trusted=True)


def native_mapping(task: Task) -> Ints:
    """int64[K], what `native` asks for: the fastest level for all but tables."""
    program = task.program
    most = np.zeros(program.num_tensors, dtype=np.int64)
    np.maximum.at(most, program.use_tensor, program.use_bytes)
    table = (program.tensor_kind == TensorKind.WEIGHT) & (most < program.tensor_bytes)
    return np.where(table, task.backing, 0)


HEURISTICS: dict[str, Callable[[Task], MemoryPlan]] = {
    "native": native_plan,
    "weights-first": weights_first,
    "results-first": results_first,
    "all-backing": all_backing,
    "all-fastest": all_fastest,
    "density-greedy": density_greedy,
}
"""Plans that cost no search, by name."""
