"""Plans without search: the native compiler that every speed-up is against, and weaker rules beside it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from memplace_env._lib.errors import AcceleratorError
from memplace_env.placement.compiler.compile import place_levels, plan_of_levels
from memplace_env.placement.compiler.density import block_lives, density_greedy, fastest_plan, ways
from memplace_env.placement.compiler.placing_order import Order
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report, evaluate_plan
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, TensorKind

NATIVE_ORDERS: tuple[Order, ...] = ("weights-before-results", "results-before-weights", "all-results-first")
"""Orders that native tries: op by op, weights or results first, and all results before all weights."""


@derived
def native_plan(task: Task) -> MemoryPlan:
    """Return the compiler's own plan, see `memplace_env.native`.

    Where tensors may not lie in the backing memory, and no order finds all of them a place, addresses are searched for
    these tensors alone.

    Raises:
        AcceleratorError: if the search finds none either.
    """
    plan = _fastest(task, native_levels(task), *NATIVE_ORDERS)
    homeless = task.homeless(plan)
    if len(homeless) and (found := _searched(task, plan, homeless)) is not None:
        return found
    if len(homeless):
        program, chip = task.program, task.accelerator
        may = np.flatnonzero(task.allowed[homeless].any(axis=0)).tolist()
        names = ", ".join(chip.levels[level].name for level in may)
        raise AcceleratorError(
            f"{program.name!r} has up to {int(program.live_bytes_in_place.max()):,} bytes of results at once, and "
            f"native finds no place in {names} of {chip.name!r} for {len(homeless)} tensors, which may not lie in "
            f"{chip.levels[-1].name}; take a smaller batch, smaller dims, or a chip with more memory."
        )
    return plan


def _searched(task: Task, plan: MemoryPlan, homeless: Ints) -> MemoryPlan | None:
    """Return a plan with what must lie in fast memory there, and nothing else; None if none is found."""
    from memplace_env.placement.addresses.address_search import pack  # whose kernels are on this package's

    must = np.flatnonzero(task.must_leave & task.program.is_placeable)
    if task.streams_weights and (task.program.tensor_kind[must] == TensorKind.WEIGHT).any():
        return None  # these would need copies, too
    first, last = block_lives(task)
    for level in np.flatnonzero(task.allowed[homeless].all(axis=0)).tolist():
        levels = np.full(task.program.num_tensors, task.backing)
        levels[must] = plan.tensor_levels(task.program)[must]
        levels[homeless] = level
        offset = np.zeros_like(levels)
        offset[must], conflicts = pack(
            task, np.stack([must, levels[must], first[must], last[must]], axis=1), explain=False
        )
        if not conflicts:
            return plan_of_levels(task, levels, offset)
    return None


def at_home(task: Task, plan: MemoryPlan) -> MemoryPlan:
    """Return the plan, or native's if it leaves tensors in the backing memory that may not lie there."""
    return native_plan(task) if len(task.homeless(plan)) else plan


@derived
def native_report(task: Task) -> Report:
    """Return the report of native's plan, the baseline of all speed-ups."""
    return evaluate_plan(task, native_plan(task), trusted=True)


@derived
def weights_first(task: Task) -> MemoryPlan:
    """Put all weights, but tables, into the fastest levels with room before any result gets bytes."""
    return _fastest(task, native_levels(task), "all-weights-first")


@derived
def results_first(task: Task) -> MemoryPlan:
    """Put every result into the fastest level with room, all weights in the backing memory."""
    weight = task.program.tensor_kind == TensorKind.WEIGHT
    return _fastest(task, np.where(weight, task.backing, 0), "weights-before-results")


@derived
def all_fastest(task: Task) -> MemoryPlan:
    """Request the fastest level for everything: results by falling size, then weights by the time that a byte saves.

    A careful compiler does so without any search.
    """
    return _fastest(task, np.zeros(task.program.num_tensors, dtype=np.int64), "by-size")


@derived
def all_backing(task: Task) -> MemoryPlan:
    """Leave everything in the backing memory, or in the slowest that may hold it."""
    tensors = task.program.num_tensors
    levels = np.full(tensors, task.backing)
    if task.must_leave.any():
        return place_levels(task, levels, "all-results-first").plan
    return plan_of_levels(task, levels, np.zeros(tensors, dtype=np.int64))


@derived
def all_backing_report(task: Task) -> Report:
    """Return the report of the all-backing plan, the baseline of games."""
    return evaluate_plan(task, all_backing(task), trusted=True)


def _fastest(task: Task, levels: Ints, *orders: Order) -> MemoryPlan:
    """Return the fastest plan of these levels: in one of the orders, with and without results in place.

    Banks of one speed that serve at once also take turns: what follows each other asks for the next one.
    """
    asked, banks = [levels], task.accelerator.fastest_banks
    if banks > 1:
        program = task.program
        turn = np.empty_like(levels)
        turn[np.lexsort((program.first_use, program.live_start))] = np.arange(program.num_tensors) % banks
        asked.append(np.where(levels == 0, turn, levels))
    return fastest_plan(task, [place_levels(task, *how).plan for how in product(asked, orders, ways(task))])


def native_levels(task: Task) -> Ints:
    """Return int64[K], the levels that `native` requests: the fastest for all but tables."""
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
