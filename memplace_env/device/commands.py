"""A plan as what two streams do: ops run on one, copies on the other, and each waits where the plan says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from memplace_env.costs import op_times
from memplace_env.costs.kernels import used_by_level
from memplace_env.execution.schedule import Copy, Run
from memplace_env.plan import MemoryPlan
from memplace_env.simulator.builtin import ordered_copies
from memplace_env.simulator.kernels import run_transfers
from memplace_env.task import Task


class Stream(StrEnum):
    """Each does its steps one after the other, and both at the same time."""

    COMPUTE = "compute"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Wait:
    """What follows on a stream begins when a step of the other one is done; without a step, when the inference has
    begun."""

    stream: Stream
    step: Run | Copy | None


Command = Run | Copy | Wait


def commands_of(task: Task, plan: MemoryPlan) -> Iterator[Command]:
    """One inference, in an order in which a host can issue it: a step comes before whatever waits for it.

    A copy waits for the op before its window, and the op behind its window for the copy; ops themselves are in order on
    their stream, and so are copies. Blocks that end make room for others only then, so no bytes are lost however long
    each step takes.

    Args:
        task: what the plan is for.
        plan: a valid one.

    Yields:
        steps, each on the stream of its kind, and waits; behind the last op compute waits for all copies.
    """
    ops, order = task.program.num_ops, copy_order(task, plan)
    start, end = plan.transfers[order, 3], plan.transfers[order, 4]
    due = np.full(ops + 1, -1)  # before each op, the last copy in that order which must be done
    np.maximum.at(due, np.minimum(end + 1, ops), np.arange(len(order)))
    due = np.maximum.accumulate(due)
    issued = done = 0
    for op in range(ops + 1):
        while issued < len(order) and (issued <= due[op] or start[issued] <= op):
            yield Wait(Stream.COPY, Run(int(start[issued]) - 1) if start[issued] else None)
            yield Copy(order[issued])
            issued += 1
        if due[op] >= done:
            yield Wait(Stream.COMPUTE, Copy(order[due[op]]))
            done = due[op] + 1
        if op < ops:
            yield Run(op)


def copy_order(task: Task, plan: MemoryPlan) -> list[int]:
    """The plan's copies, by number, in the order in which the built-in simulator finishes them.

    A stream cannot put a copy off for a more urgent one, as the simulator does. In this order none is waited for whose
    window begins behind what waits, so that the streams cannot block each other.
    """
    costs = task.costs
    copies = ordered_copies(task, plan)
    times = op_times(costs, used_by_level(task.program.use_ptr, plan.use_level, costs.use_ps))
    demand = np.maximum(1, copies.demand_ps)  # a copy that takes no time at all must stand in the order too
    _, _, served = run_transfers(times.op_ps - times.port_ps[:, -1], copies.start, copies.end, demand)
    finished = np.zeros(len(copies.transfer), dtype=np.int64)
    finished[served[:, 0]] = np.arange(len(served))  # the last stretch of each counts
    order: list[int] = copies.transfer[np.argsort(finished, kind="stable")].tolist()
    return order
