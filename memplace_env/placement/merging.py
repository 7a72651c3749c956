"""Merging: neighbouring slices of a tensor that a plan treats alike become one slice again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs.shared_costs import shared_costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Program
from memplace_env.program.slicing import cut, cuts_of


def merged(task: Task, plan: MemoryPlan) -> tuple[Task, MemoryPlan]:
    """Return the task with fewer slices, and the valid plan for it: slices that lie alike are one.

    Neighbours are merged if the same levels serve them, their copies have the same windows, and their blocks adjoin in
    order. Shares of ranges that meet add up, so the latency is equal; it is less where windows read rows of two slices
    twice, and where a slice's share was below 1 ps. The settings have the rows before which tensors are cut, and
    replay the plan.

    It is a plan for another Program than before: its hash, and native's plan beside it, are those of fewer slices.
    Where nothing merges, or the costs are those of the slices themselves, both are returned as they are.
    """
    program = task.program
    if program.slices is None or task.whole_costs is None:
        return task, plan
    kept = ~_joins(program, plan)
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
    blocks, copies = (rows[kept[rows[:, 0]]] for rows in (plan.allocations, plan.transfers))
    blocks[:, 0], copies[:, 0] = number[blocks[:, 0]], number[copies[:, 0]]
    return fewer, fewer.make_plan(plan.use_level[kept[program.use_tensor]], blocks, copies)


def _joins(program: Program, plan: MemoryPlan) -> NDArray[np.bool_]:
    """Return bool[K], whether each slice can be one with the tensor before it."""
    assert program.slices is not None
    use_of, level = program.slices.use_of, plan.use_level
    joins = np.append(False, np.diff(program.slices.slice_of) == 0)
    # A use of a whole tensor is one of each of its slices, in their order.
    joins[program.use_tensor[1:][(np.diff(use_of) == 0) & (np.diff(level) != 0)]] = False
    blocks: list[list[tuple[int, ...]]] = [[] for _ in joins]
    copies: list[list[tuple[int, ...]]] = [[] for _ in joins]
    for tensor, at, offset, start, end in plan.allocations.tolist():
        blocks[tensor].append((at, start, end, offset))
    for tensor, *copy in plan.transfers.tolist():
        copies[tensor].append(tuple(copy))
    for tensor in np.flatnonzero(joins):
        size = int(program.tensor_bytes[tensor - 1])
        behind = sorted((*times, offset + size) for *times, offset in blocks[tensor - 1])
        joins[tensor] = behind == sorted(blocks[tensor]) and sorted(copies[tensor - 1]) == sorted(copies[tensor])
    return joins
