"""The simulator's rules in plain Python on a task's cost arrays: what its kernels are held equal to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Program


def uses_of(program: Program, op: int) -> range:
    """Numbers of the op's uses."""
    return range(program.use_ptr[op], program.use_ptr[op + 1])


def op_ports(task: Task, use_level: Mapping[int, int]) -> list[int]:
    """Picoseconds that each level's port is busy during an op; `use_level` gives the level of each of its uses."""
    ports = [0] * task.accelerator.num_levels
    for use, level in use_level.items():
        ports[level] += int(task.costs.use_ps[use, level])
    return [time + int(task.costs.latency_ps[level]) if time else 0 for level, time in enumerate(ports)]


def op_time(task: Task, op: int, ports: list[int]) -> int:
    """Picoseconds of an op whose ports are busy for so long."""
    memory = sum(ports) if task.costs.serial else max(ports)
    return max(int(task.costs.compute_ps[op]), memory) + int(task.costs.overhead_ps[op])


def copy_time(task: Task, tensor: int, *, prefetch: bool) -> int:
    """Picoseconds of the backing memory's port that a copy of the tensor needs."""
    return int((task.costs.prefetch_ps if prefetch else task.costs.writeback_ps)[tensor])


@dataclass
class Copy:
    """A copy that may run during ops start..end and still needs the port for `left` picoseconds."""

    start: int
    end: int
    left: int


def play_copies(free: list[int], copies: Iterable[Copy]) -> tuple[list[int], int]:
    """(Stall before each op, tail after the last) where ops leave the port `free` for so many picoseconds.

    Copies are given in plan order and served by earliest end, then start, then order.
    """
    served = sorted(copies, key=lambda copy: (copy.end, copy.start))
    stalls = []
    for op, left in enumerate(free):
        late = [copy for copy in served if copy.end < op]
        stalls.append(sum(copy.left for copy in late))
        for copy in late:
            copy.left = 0
        for copy in served:
            if copy.start <= op:
                done = min(left, copy.left)
                copy.left -= done
                left -= done
    return stalls, sum(copy.left for copy in served)


class Timing(NamedTuple):
    """Return the time of a plan in picoseconds."""

    latency: int
    op_times: list[int]
    stalls: list[int]
    tail: int


def simulate(task: Task, plan: MemoryPlan) -> Timing:
    """Op by op, then the copies in what the ops leave of the backing memory's port."""
    op_times, free = [], []
    for op in range(task.program.num_ops):
        ports = op_ports(task, {use: int(plan.use_level[use]) for use in uses_of(task.program, op)})
        op_times.append(op_time(task, op, ports))
        free.append(op_times[-1] - ports[-1])
    copies = [
        Copy(start, end, copy_time(task, tensor, prefetch=source == task.backing))
        for tensor, source, _, start, end in plan.transfers.tolist()
    ]
    stalls, tail = play_copies(free, copies)
    return Timing(sum(op_times) + sum(stalls) + tail, op_times, stalls, tail)
