"""Merging: neighbouring slices of a tensor that a plan treats alike become one slice again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs.shared_costs import shared_costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program
from memplace_env.program.slicing import cut, cuts_of


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
    joins, offsets = _joins(program, plan)
    kept = ~joins
    if kept.all():
        return task, plan
    last = np.append(kept[1:], True)  # the last of slices that become one
    owner, ends = program.slices.slice_of[last], program.slices.rows[last, 1]
    coarse = cut(program.whole, np.split(ends, np.flatnonzero(np.diff(owner)) + 1))
    costs = task.whole_costs if coarse.slices is None else shared_costs(task.whole_costs, coarse.slices)
    settings = {name: value for name, value in task.settings.items() if name != "slices"}
    if coarse.slices is not None and "slices" in task.settings:
        settings["slices"] = cuts_of(coarse)
    whole_costs = None if coarse.slices is None else task.whole_costs
    fewer = Task(coarse, task.accelerator, costs, task.simulator, settings, whole_costs)
    number = np.cumsum(kept) - 1
    blocks, copies = plan.allocations.copy(), plan.transfers.copy()
    blocks[:, 2] = offsets
    blocks, copies = (rows[kept[rows[:, 0]]] for rows in (blocks, copies))
    blocks[:, 0], copies[:, 0] = number[blocks[:, 0]], number[copies[:, 0]]
    # Slices that are one now may adjoin another.
    return merged(fewer, fewer.make_plan(plan.use_level[kept[program.use_tensor]], blocks, copies))


def _joins(program: Program, plan: MemoryPlan) -> tuple[NDArray[np.bool_], Ints]:
    """Return bool[K], whether each slice becomes one with the tensor before it, and int64[A], new offsets of blocks."""
    assert program.slices is not None
    joins = np.append(False, np.diff(program.slices.slice_of) == 0)
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
