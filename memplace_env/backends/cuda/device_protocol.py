"""The interface of a device with two streams, a plan as the commands for them, and times by its own clocks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from memplace_env._lib.errors import PlanError
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp
from memplace_env.machine.costs import op_times
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.builtin import ordered_copies
from memplace_env.placement.simulator.deadline_kernel import run_transfers
from memplace_env.placement.task import Task


def timed(device: Device, play: Work, before: Work = lambda: None) -> float:
    """Return the seconds between the compute stream's clocks before and after some work.

    The stream is kept busy until the host has issued the work, so that the host's time does not count. If it was not
    kept busy for long enough, everything is done again.

    Args:
        device: the device.
        play: issues the work.
        before: called before each issue, not timed.
    """
    while True:
        before()
        device.hold(Stream.COMPUTE)
        first = device.clock(Stream.COMPUTE)
        play()
        last = device.clock(Stream.COMPUTE)
        held = device.held(first)
        device.finish()
        if held:
            return device.seconds(first, last)


def median_seconds(device: Device, play: Work, runs: int) -> float:
    """Return the median time of work that is issued `runs` times, after one run without timing."""
    play()
    return statistics.median(timed(device, play) for _ in range(runs))


def repeated(
    device: Device, work: Work, repeats: int, *, step: RunOp | None = None, capture: bool = True
) -> CapturedWork:
    """Return a replay of work on the compute stream, repeated.

    Args:
        device: the device.
        work: the work.
        repeats: number of repeats.
        step: the step that it belongs to.
        capture: whether it may be one graph.
    """

    def issue() -> None:
        for _ in range(repeats):
            device.issue(Stream.COMPUTE, work, step)

    return device.replay(issue, capture=capture)


class Stream(StrEnum):
    """One of two streams; each runs its steps in order, and both run at the same time."""

    COMPUTE = "compute"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class Wait:
    """Later commands of a stream wait for a step of the other one; without a step, for the begin of the inference."""

    stream: Stream
    step: RunOp | CopyTensor | None


Command = RunOp | CopyTensor | Wait


def commands_of(task: Task, plan: MemoryPlan) -> Iterator[Command]:
    """Yield one inference in an order in which a host can issue it: a step comes before any wait for it.

    A copy waits for the op before its window, and the op after its window waits for the copy; ops themselves are in
    order on their stream, and so are copies. A block's bytes are reused only after its last op, so that no bytes are
    lost however long each step takes.

    Args:
        task: the plan's task.
        plan: a valid plan.

    Yields:
        steps, each on the stream of its kind, and waits; after the last op the compute stream waits for all copies.
    """
    ops, order = task.program.num_ops, copy_order(task, plan)
    start, end = plan.transfers[order, 3], plan.transfers[order, 4]
    due = np.full(ops + 1, -1)  # before each op, index in `order` of the last copy that must be done
    np.maximum.at(due, np.minimum(end + 1, ops), np.arange(len(order)))
    due = np.maximum.accumulate(due)
    issued = done = 0
    # Before op: copies order[:issued] are issued, and the compute stream has waited for order[:done].
    for op in range(ops + 1):
        while issued < len(order) and (issued <= due[op] or start[issued] <= op):
            yield Wait(Stream.COPY, RunOp(int(start[issued]) - 1) if start[issued] else None)
            yield CopyTensor(order[issued])
            issued += 1
        if due[op] >= done:
            yield Wait(Stream.COMPUTE, CopyTensor(order[due[op]]))
            done = due[op] + 1
        if op < ops:
            yield RunOp(op)


def copy_order(task: Task, plan: MemoryPlan) -> list[int]:
    """Return the rows of the plan's copies in the order in which the built-in simulator finishes them.

    A stream cannot interrupt a copy for a more urgent one, as the simulator does. In this order no op waits for a copy
    whose window begins after that op, so that the streams cannot block each other.
    """
    costs = task.costs
    copies = ordered_copies(task, plan)
    if (copies.port < task.backing).any():
        raise PlanError("A device has one fast memory; make the plan without copies between fast memories.")
    times = op_times(costs, used_by_level(task.program.use_ptr, plan.use_level, costs.use_ps))
    demand = np.maximum(1, copies.demand_ps)  # a copy that takes no time must be served, too
    _, _, served = run_transfers(times.op_ps - times.port_ps[:, -1], copies.start, copies.end, demand)
    finished = np.zeros(len(copies.transfer), dtype=np.int64)
    finished[served[:, 0]] = np.arange(len(served))  # copies are served in stretches; the last one of each counts
    order: list[int] = copies.transfer[np.argsort(finished, kind="stable")].tolist()
    return order


Work = Callable[[], None]
"""Issues operations on tensors of the device, in order, to a stream."""


class CapturedWork(NamedTuple):
    """Work that can be issued repeatedly.

    Attributes:
        play: issues it.
        captured: whether it is one graph, so that the host adds no time between its steps.
    """

    play: Work
    captured: bool


class Device(Protocol):
    """A device with memory of its own, its host's memory behind it, and two streams.

    Attributes:
        name: name of the device for messages.
        torch_name: PyTorch's name of it.
    """

    name: str
    torch_name: str

    def arena(self, size: int, *, fast: bool) -> Tensor:
        """Allocate uint8[size], in the device if `fast`, else in the host where the device's copies reach it.

        Raises:
            ExecutionError: there is not enough memory.
        """
        ...

    def issue(self, stream: Stream, work: Work, step: RunOp | CopyTensor | None = None) -> None:
        """Append work to a stream; `step` is the step that it belongs to."""
        ...

    def mark(self, stream: Stream) -> Any:
        """Return a mark that passes when everything issued to a stream so far is done."""
        ...

    def wait(self, stream: Stream, mark: Any) -> None:
        """Let a stream wait for a mark of the other one."""
        ...

    def clock(self, stream: Stream) -> Any:
        """Return a mark whose time can be read once it has passed, after each replay anew."""
        ...

    def seconds(self, first: Any, last: Any) -> float:
        """Return the seconds between two clocks that have passed."""
        ...

    def finish(self) -> None:
        """Wait until both streams are done."""
        ...

    def hold(self, stream: Stream) -> None:
        """Keep a stream busy for as long as a host may need to issue the next work."""
        ...

    def held(self, first: Any) -> bool:
        """Return whether a clock after `hold` has not passed yet, or no longer hold is possible.

        If it has not passed, the stream was busy until the host had issued everything; else later holds are twice as
        long.
        """
        ...

    def replay(self, issue: Work, *, capture: bool = True) -> CapturedWork:
        """Run the work and return a replay of it, as a captured graph if `capture` is set and it can be one."""
        ...
