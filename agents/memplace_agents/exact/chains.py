"""Addresses for blocks of which some are results in the place of an operand: chains of such blocks are one block."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from memplace_agents.exact.clock import Clock
from memplace_env.placement.addresses.address_search import Conflict, pack
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


def pack_chains(
    task: Task, blocks: Ints, clock: Clock | None = None, *, explain: bool = True
) -> tuple[Ints, list[Conflict], Ints]:
    """Return offsets and conflicts as `pack` does, and the `heads` of the blocks with which they were found.

    Results lie in place only in ops that would overflow otherwise, then wherever they may. A conflict is of heads, and
    is proven for these chains only.
    """
    if not len(task.handovers):
        return *pack(task, blocks, clock, explain=explain), np.arange(len(blocks))
    for needed in (True, False):
        head = heads(task, blocks, needed=needed)
        offset, conflicts = pack(task, joined(task, blocks, head), clock, explain=explain and not needed)
        if not conflicts:
            break
    return offset[head], conflicts, head


def heads(task: Task, blocks: Ints, *, needed: bool) -> Ints:
    """Return the first block of the chain of operands and results in each other's place, int64[A], itself without one.

    Args:
        task: the problem.
        blocks: int64[A, 4], tensor, level, first and last op.
        needed: True to put as few bytes in place as keep each op within its room, False for as many as there can be.
    """
    program, head = task.program, np.arange(len(blocks))
    tensor, level_of, first, last = blocks.T
    size = program.tensor_bytes[tensor]
    places = blocks[:, [0, 1, 3]].tolist(), blocks[:, [0, 1, 2]].tolist()
    by_end, by_start = ({tuple(place): row for row, place in enumerate(rows)} for rows in places)
    for level in range(task.backing):
        inside = level_of == level
        held = np.zeros(program.num_ops + 2, dtype=np.int64)
        np.add.at(held, first[inside], size[inside])
        np.subtract.at(held[1:], last[inside], size[inside])
        over = held.cumsum()[:-1] - task.room_bytes(level)
        pairs = [
            (by_end[operand, level, op], by_start[result, level, op], op)
            for operand, result, op in task.handovers.tolist()
            if (operand, level, op) in by_end and (result, level, op) in by_start
        ]
        own = np.array(pairs, dtype=np.int64).reshape(-1, 3)
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


def joined(task: Task, blocks: Ints, head: Ints) -> Ints:
    """Return the blocks with the life of each chain in that of its head, and the others out of the way."""
    chains = blocks.copy()
    np.maximum.at(chains[:, 3], head, blocks[:, 3])
    chains[head != np.arange(len(head)), 1] = task.backing
    return chains
