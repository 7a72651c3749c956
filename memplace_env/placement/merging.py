"""A plan in other slices: neighbours that it treats alike merged, or slices cut finer, as another plan has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import PlanError
from memplace_env.machine.costs import Costs
from memplace_env.machine.costs.cost_arrays import shared_costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.blocks import aligned
from memplace_env.program.program import Ints, Program
from memplace_env.program.slicing import cut, cut_before, cuts_of


def merged(task: Task, plan: MemoryPlan) -> tuple[Task, MemoryPlan]:
    """Return the task with fewer slices, and the valid plan for it: slices that lie alike are one.

    Neighbours are merged if the same levels serve them, their copies have the same windows, and their blocks adjoin at
    the same time; those in descending order are turned around. Shares of ranges that meet add up, so the latency is
    equal; it is less where windows read rows of two slices twice, and where a slice's share was below 1 ps. The
    settings have the rows before which tensors are cut, and replay the plan.

    It is a plan for another Program than before: its hash, and native's plan beside it, are those of fewer slices.
    Where nothing merges, or the costs are those of the slices themselves, both are returned as they are.
    """
    program = task.program
    if program.slices is None or task.whole_costs is None:
        return task, plan
    joins, offsets = _joins_alike(program, plan)
    kept = ~joins
    if kept.all():
        return task, plan
    last = np.append(kept[1:], True)  # the last of slices that become one
    owner, ends = program.slices.slice_of[last], program.slices.rows[last, 1]
    coarse = aligned(cut(program.whole, np.split(ends, np.flatnonzero(np.diff(owner)) + 1)), program.alignment)
    fewer = _in_slices(task, task.whole_costs, coarse, "slices" in task.settings)
    number = np.cumsum(kept) - 1
    blocks, copies = plan.allocations.copy(), plan.transfers.copy()
    blocks[:, 2] = offsets
    blocks, copies = (rows[kept[rows[:, 0]]] for rows in (blocks, copies))
    blocks[:, 0], copies[:, 0] = number[blocks[:, 0]], number[copies[:, 0]]
    # Slices that are one now may adjoin another.
    return merged(fewer, fewer.make_plan(plan.use_level[kept[program.use_tensor]], blocks, copies))


def in_common_slices(tasks: Sequence[Task], plans: Sequence[MemoryPlan]) -> tuple[Task, list[MemoryPlan]]:
    """Return one task that has the cuts of all tasks, and each task's valid plan as a plan for it.

    Parts of a slice lie side by side, and are used and copied as it was. They read halos of their own, so a plan's own
    latency is that of its own task.

    Args:
        tasks: tasks that differ in their slices alone.
        plans: a plan of each.

    Raises:
        PlanError: if tasks differ otherwise, or a model gives costs of its own to slices.
    """
    first = tasks[0]
    of_wholes = [task.costs if task.program.slices is None else task.whole_costs for task in tasks]
    whole_costs = of_wholes[0]
    for task, costs in zip(tasks, of_wholes, strict=True):
        same = task.program.whole.sha256 == first.program.whole.sha256 and task.accelerator == first.accelerator
        if not same or costs is None or whole_costs is None or not _equal(costs, whole_costs):
            raise PlanError("The plans are for tasks that differ in more than their slices; pass plans of one task.")
    assert whole_costs is not None
    rows: dict[str, set[int]] = {}
    for task in tasks:
        for tensor, begins in cuts_of(task.program).items():
            rows.setdefault(tensor, set()).update(begins)
    _cut_pairs_alike(first.program.whole, rows)
    fine = cut_before(first.program, {tensor: sorted(begins) for tensor, begins in rows.items() if begins})
    fine = aligned(fine, first.program.alignment)
    common = _in_slices(first, whole_costs, fine, True)
    return common, [_refined(task.program, plan, common) for task, plan in zip(tasks, plans, strict=True)]


def _cut_pairs_alike(whole: Program, rows: dict[str, set[int]]) -> None:
    """Add to the first rows of slices, by tensor, those of the tensors that they may share their place with."""
    length, changed = whole.tensor_rows[:, 1].tolist(), True
    while changed:
        changed = False
        for pair in whole.use_tensor[whole.inplace].tolist():
            for tensor, other in (pair, pair[::-1]):
                mine = rows.setdefault(str(tensor), set())
                scaled = (divmod(row * length[tensor], length[other]) for row in rows.get(str(other), ()))
                alike = {row for row, rest in scaled if not rest}
                changed |= not alike <= mine
                mine |= alike


def _equal(first: Costs, second: Costs) -> bool:
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(first, second, strict=True))


def _refined(coarse: Program, plan: MemoryPlan, task: Task) -> MemoryPlan:
    """Return a plan for `coarse` as one for a task of the same program with at least its cuts."""
    fine = task.program
    # Slices follow each other by tensor and row, so a fine slice is a part of the last that begins no later.
    stride = int(fine.whole.tensor_rows[:, 1].max(initial=0)) + 1
    part_of = np.searchsorted(_begins(coarse, stride), _begins(fine, stride), side="right") - 1
    count = np.bincount(part_of, minlength=coarse.num_tensors)
    first = np.cumsum(count) - count
    start = np.cumsum(fine.tensor_bytes) - fine.tensor_bytes

    def of_parts(rows: Ints) -> Ints:
        """Return a row of each part in place of rows int64[N, ...] that begin with a slice of `coarse`."""
        parts = count[rows[:, 0]]
        own = np.repeat(rows, parts, axis=0)
        number = np.arange(len(own)) - np.repeat(np.cumsum(parts) - parts, parts)
        own[:, 0] = np.repeat(first[rows[:, 0]], parts) + number
        return own

    blocks = of_parts(plan.allocations)
    blocks[:, 2] += start[blocks[:, 0]] - start[first[part_of[blocks[:, 0]]]]
    # Uses of one tensor of the whole by an op follow each other, one of each slice.
    whole_use = np.arange(coarse.num_uses) if coarse.slices is None else coarse.slices.use_of
    fine_use = np.arange(fine.num_uses) if fine.slices is None else fine.slices.use_of
    begin = np.searchsorted(whole_use, fine_use)
    use = begin + part_of[fine.use_tensor] - coarse.use_tensor[begin]
    return task.make_plan(plan.use_level[use], blocks, of_parts(plan.transfers))


def _begins(program: Program, stride: int) -> Ints:
    """Return int64[K], ascending: number of the whole tensor times `stride`, plus the slice's first row."""
    rows = np.zeros(program.num_tensors, dtype=np.int64) if program.slices is None else program.slices.rows[:, 0]
    return program.whole_tensor * stride + rows


def _in_slices(task: Task, whole_costs: Costs, program: Program, settle: bool) -> Task:
    """Return the task with its program in other slices, which its settings have if `settle`."""
    settings = {name: value for name, value in task.settings.items() if name != "slices"}
    if program.slices is None:
        return Task(program, task.accelerator, whole_costs, task.simulator, settings)
    if settle:
        settings["slices"] = cuts_of(program)
    costs = shared_costs(whole_costs, program.slices)
    return Task(program, task.accelerator, costs, task.simulator, settings, whole_costs)


def _joins_alike(program: Program, plan: MemoryPlan) -> tuple[NDArray[np.bool_], Ints]:
    """Return `_joins` in which slices that lie in each other's place stay pairs."""
    pairs = plan.allocations[np.array(plan.handed_over(program), dtype=np.int64).reshape(-1, 2), 0]
    partners: list[set[int]] = [set() for _ in range(program.num_tensors)]  # as distances, equal for neighbours' pairs
    for operand, result in pairs.tolist():
        partners[operand].add(result - operand)
        partners[result].add(operand - result)
    may = np.array([one == other for one, other in pairwise([set(), *partners])])
    while True:
        joins, offsets = _joins(program, plan, may)
        apart = pairs[joins[pairs[:, 0]] != joins[pairs[:, 1]]]
        if not len(apart):
            return joins, offsets
        may[apart] = False


def _joins(program: Program, plan: MemoryPlan, may: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Ints]:
    """Return bool[K], whether each slice becomes one with the tensor before it, and int64[A], new offsets of blocks.

    Only slices that `may` bool[K] do.
    """
    assert program.slices is not None
    joins = may & np.append(False, np.diff(program.slices.slice_of) == 0)
    # A use of a whole tensor is one of each of its slices, in their order.
    apart = (np.diff(program.slices.use_of) == 0) & (np.diff(plan.use_level) != 0)
    joins[program.use_tensor[1:][apart]] = False
    times: list[list[tuple[int, ...]]] = [[] for _ in joins]  # of each slice's blocks and copies, in order
    rows: list[list[int]] = [[] for _ in joins]
    for row in np.lexsort(plan.allocations[:, [4, 3, 1]].T).tolist():
        tensor, level, _, start, end = plan.allocations[row].tolist()
        times[tensor].append((level, start, end))
        rows[tensor].append(row)
    for tensor, *copy in sorted(plan.transfers.tolist()):
        times[tensor].append(tuple(copy))
    low = plan.allocations[:, 2].copy()
    high = low + program.tensor_bytes[plan.allocations[:, 0]]
    first = 0
    for tensor in range(1, program.num_tensors):
        ours, theirs = rows[tensor], rows[first]
        if joins[tensor] and times[tensor] == times[first]:
            joins[tensor] = ((low[ours] == high[theirs]) | (high[ours] == low[theirs])).all()
        else:
            joins[tensor] = False
        if joins[tensor]:
            low[theirs] = np.minimum(low[theirs], low[ours])
            high[theirs] = np.maximum(high[theirs], high[ours])
        else:
            first = tensor
    return joins, low
