"""Tensors that are alike: slices of one tensor that cost the same, of which only the number in each level counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env.machine.costs import Costs
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class Alike(NamedTuple):
    """Groups of tensors that can change places in any plan: of equal bytes, ops and shares of what the whole costs.

    Attributes:
        first: int64[K], the first tensor of each tensor's group.
        rank: int64[K], number of earlier tensors in the group.
        size: int64[K], tensors in the group.
        costs: those of the task, with the least of a group for each of its tensors: shares are rounded to a picosecond.
    """

    first: Ints
    rank: Ints
    size: Ints
    costs: Costs


def alike(task: Task) -> Alike:
    """Return the groups of a task; without slices each tensor is a group of its own."""
    program, costs = task.program, task.costs
    tensors = np.arange(program.num_tensors)
    first, rank, members = tensors.copy(), np.zeros_like(tensors), np.ones_like(tensors)
    if program.slices is None:
        return Alike(first, rank, members, costs)
    by_tensor = np.argsort(program.use_tensor, kind="stable")  # a tensor's uses, in the order of ops
    begin = np.searchsorted(program.use_tensor[by_tensor], np.append(tensors, program.num_tensors))
    moved = np.diff(program.slices.use_rows, axis=1)[by_tensor]
    seen: dict[tuple[int, int, bytes], list[int]] = {}
    for tensor in tensors.tolist():
        rows = moved[begin[tensor] : begin[tensor + 1]].tobytes()
        key = int(program.slices.slice_of[tensor]), int(program.tensor_bytes[tensor]), rows
        seen.setdefault(key, []).append(tensor)
    use_ps, prefetch_ps = costs.use_ps.copy(), costs.prefetch_ps.copy()
    for group in seen.values():
        uses = by_tensor[np.add.outer(begin[group], np.arange(begin[group[0] + 1] - begin[group[0]]))]
        own, copies = costs.use_ps[uses], costs.prefetch_ps[group]
        if len(group) > 1 and max(np.ptp(own, axis=0).max(initial=0), np.ptp(copies)) <= 1:
            first[group], rank[group], members[group] = group[0], range(len(group)), len(group)
            use_ps[uses], prefetch_ps[group] = own.min(axis=0), copies.min()
    return Alike(first, rank, members, costs._replace(use_ps=use_ps, prefetch_ps=prefetch_ps))
