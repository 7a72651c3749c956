"""Plans with given levels: addresses by the compiler, or by a search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from memplace_agents.exact.address_search import Conflict, pack
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.static.level_moves import Lives, lives, released
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.compile import plan_of_levels
from memplace_env.placement.compiler.placing_order import ORDERS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class Placed(NamedTuple):
    """Plans made of levels.

    Attributes:
        plans: one plan with exactly these levels; without addresses for it, the compiler's, in which some tensors are
            in other levels.
        conflicts: the tensors that have no addresses together; empty if the plan has exactly these levels.
    """

    plans: list[MemoryPlan]
    conflicts: list[Conflict]


def placed(task: Task, level: Ints, clock: Clock) -> Placed:
    """Return plans with the levels int64[K]; see `pack` for the clock."""
    compiled = [place_levels(task, level, order) for order in ORDERS]
    complete = [plan for plan, reassigned in compiled if reassigned == 0]
    if complete:
        return Placed(complete[:1], [])
    blocks = lives(task, level)
    offset, conflicts = offsets(task, blocks, clock)
    if conflicts:
        return Placed([plan for plan, _ in compiled], conflicts)
    return Placed([plan_of_levels(task, blocks.level, offset, blocks.copy_start)], [])


def offsets(task: Task, blocks: Lives, clock: Clock | None = None) -> tuple[Ints, list[Conflict]]:
    """Return an offset for each tensor, int64[K], and the conflicts of those without one, as `pack` does.

    Results lie in place only in ops that would overflow otherwise, then wherever they may. What has no addresses then
    might have some with other pairs: that is proven only where lives without the ops of pairs have none.
    """
    if not len(task.program.handovers):
        return pack(task, blocks.rows, clock)
    for needed in (True, False):
        head = _heads(task, blocks, needed=needed)
        offset, joined = pack(task, _joined(task, blocks, head), clock, explain=not needed)
        if not joined:
            return offset[head], []
    apart = blocks._replace(last=released(task.program, blocks.level, blocks.last))
    conflicts = pack(task, apart.rows, clock)[1]
    for level, *found, height, _ in () if conflicts else joined:
        passing, permanent = (np.flatnonzero(np.isin(head, tensors)) for tensors in found)
        conflicts.append(Conflict(level, passing, permanent, height, proven=False))
    return offset, conflicts


def _heads(task: Task, blocks: Lives, *, needed: bool) -> Ints:
    """Return the first tensor of the chain of operands and results in each other's place, int64[K], itself without one.

    Args:
        task: the problem.
        blocks: the levels and lives.
        needed: True to put as few bytes in place as keep each op within its room, False for as many as there can be.
    """
    program, size, head = task.program, task.program.tensor_bytes, np.arange(task.program.num_tensors)
    pairs = program.handovers[blocks.level[program.handovers[:, 0]] == blocks.level[program.handovers[:, 1]]]
    for level in range(task.backing):
        inside = blocks.level == level
        held = np.zeros(program.num_ops + 1, dtype=np.int64)
        np.add.at(held, blocks.first[inside], size[inside])
        np.subtract.at(held[1:], blocks.last[inside], size[inside])
        over = held.cumsum() - task.room_bytes(level)
        own = pairs[inside[pairs[:, 0]]]
        for op in np.unique(own[:, 2]).tolist():
            operands, operand = np.unique(own[own[:, 2] == op, 0], return_inverse=True)
            results, result = np.unique(own[own[:, 2] == op, 1], return_inverse=True)
            saved = np.zeros((len(operands), len(results)), dtype=np.int64)
            saved[operand, result] = size[operands[operand]]
            row, column = linear_sum_assignment(saved, maximize=True)
            for each in np.argsort(-saved[row, column], kind="stable").tolist():
                most = saved[row[each], column[each]]
                if most and not (needed and over[op] <= 0):
                    head[results[column[each]]] = head[operands[row[each]]]
                    over[op] -= most
    return head


def _joined(task: Task, blocks: Lives, head: Ints) -> Ints:
    """Return the rows of `Lives.rows`, in which the head of a chain lives as long as that, the others in no level."""
    last = blocks.last.copy()
    np.maximum.at(last, head, blocks.last)
    level = np.where(head == np.arange(len(head)), blocks.level, task.backing)
    return blocks._replace(level=level, last=last).rows
