"""The built-in simulator: exact, deterministic, in integer picoseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env._lib.units import PJ, PS
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import CostModel, OpTimes, costs_of, op_times, resolve_cost_model
from memplace_env.machine.costs.op_time_kernels import used_by_level
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator.deadline_kernel import add_blocks, run_on_ports, run_transfers
from memplace_env.placement.simulator.traffic_bound import traffic_bound_ps
from memplace_env.placement.simulator_report import Report
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program


def time_plan(task: Task, plan: MemoryPlan) -> Report:
    """Return the report of a valid plan by the task's cost arrays.

    An op takes its time by `op_times`. What it leaves of the backing memory's port is free for copies, which share it
    by earliest deadline. A copy that is not done when its last op ends stalls the next one; what remains at the end is
    the tail. Copies between fast memories share the port of the slower one likewise; while an op waits, all ports work.
    The rules are our own, modelled after XLA's and Intel's cost models: neither paper publishes its own.
    """
    costs, program = task.costs, task.program
    times = op_times(costs, used_by_level(program.use_ptr, plan.use_level, costs.use_ps))
    copies = ordered_copies(task, plan)
    stall, tail, _ = copies.run(times)
    return report_of(task, plan, times, stall, int(tail), traffic_bound_ps(task))


def report_of(task: Task, plan: MemoryPlan, times: OpTimes, stall_ps: Ints, tail_ps: int, bound_ps: int) -> Report:
    """Return the report of a valid plan whose ops, stalls and tail take these times."""
    costs = task.costs
    latency = int(times.op_ps.sum() + stall_ps.sum() + tail_ps)
    # Under events an op may take less than its work and its ports, parts of which ran beside the op before.
    binds = costs.memory_binds(times.memory_ps) & (times.op_ps > costs.work_ps)
    return Report(
        latency_ps=latency,
        op_time_ps=times.op_ps,
        compute_ps=costs.work_ps,
        port_ps=times.port_ps,
        stall_ps=stall_ps,
        tail_ps=tail_ps,
        bound_by=np.where(binds, times.port_ps.argmax(axis=1), -1).astype(np.int8),
        bytes_moved=_bytes_moved(task, plan),
        peak_bytes=_peak_bytes(task, plan),
        energy_j=energy_j(_dynamic_pj(task, plan), latency, task.accelerator),
        traffic_bound_ps=bound_ps,
        level_names=tuple(level.name for level in task.accelerator.levels),
    )


class BuiltinSimulator:
    """`time_plan` as a `Simulator`, for third parties to wrap or extend.

    An environment that is made without `simulator` does the same faster, and lets exact solvers and bounds work.

    Args:
        costs: name of a cost model, or one; None takes the one in the plan's settings, else the accelerator's.
    """

    name = "builtin"

    def __init__(self, costs: str | CostModel | None = None) -> None:
        self.model = None if costs is None else resolve_cost_model(costs)
        self._last: tuple[str, Task] | None = None

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Time a plan that is known to be valid; `memplace_env.simulate` checks first."""
        return time_plan(self.task_of(program, accelerator, plan), plan)

    def task_of(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Task:
        """Return the task that the plan is timed in; the same object while program, chip and costs stay the same."""
        name = str(plan.settings.get("costs") or accelerator.cost_model)
        last_name, task = self._last or (name, None)
        if task is None or last_name != name or task.program is not program or task.accelerator is not accelerator:
            model = resolve_cost_model(name) if self.model is None else self.model
            task = Task(program, accelerator, costs_of(model, program, accelerator))
            self._last = name, task
        return task


class CopyDemands(NamedTuple):
    """The copies of a plan in the order in which the port serves them: by end, then start, then order in the plan.

    Attributes:
        transfer: int64[M], number in the plan.
        start, end: int64[M], ops during which the copy may run.
        demand_ps: int64[M], time of the port that it needs.
        port: int64[M], level of the port, that of the slower of both memories.
    """

    transfer: Ints
    start: Ints
    end: Ints
    demand_ps: Ints
    port: Ints

    def run(self, times: OpTimes) -> tuple[Ints, int, Ints]:
        """Return what `run_transfers` does, for ops that take these times."""
        leftover, backing = times.op_ps[:, None] - times.port_ps, times.port_ps.shape[1] - 1
        if (self.port == backing).all():
            return run_transfers(leftover[:, -1].copy(), self.start, self.end, self.demand_ps)  # type: ignore[no-any-return]
        return run_on_ports(leftover, self.port, self.start, self.end, self.demand_ps)  # type: ignore[no-any-return]


def ordered_copies(task: Task, plan: MemoryPlan) -> CopyDemands:
    """Return the plan's copies, as `run_transfers` takes them."""
    tensor, source, target, start, end = plan.transfers.T
    order = np.lexsort((start, end))
    demand = task.copy_ps(tensor, source, target)
    return CopyDemands(order, start[order], end[order], demand[order], np.maximum(source, target)[order])


def backing_port_ps(task: Task, plan: MemoryPlan) -> int:
    """Return for how long a plan's uses and copies keep the backing memory's port busy by the task's cost arrays."""
    times = op_times(task.costs, used_by_level(task.program.use_ptr, plan.use_level, task.costs.use_ps))
    copies = ordered_copies(task, plan)
    return int(times.port_ps[:, -1].sum() + copies.demand_ps[copies.port == task.backing].sum())


def energy_j(dynamic_pj: int, latency_ps: int, accelerator: Accelerator) -> float:
    """Return joules: those of ops and copies, plus static power over the latency."""
    return dynamic_pj * PJ + accelerator.static_power_w * latency_ps * PS


def _dynamic_pj(task: Task, plan: MemoryPlan) -> int:
    costs = task.costs
    uses = np.take_along_axis(costs.use_pj, plan.use_level.astype(np.int64)[:, None], axis=1).sum()
    return int(costs.compute_pj.sum() + uses + task.copy_pj(*plan.transfers[:, :3].T).sum())


def _bytes_moved(task: Task, plan: MemoryPlan) -> Ints:
    moved = np.zeros(task.accelerator.num_levels, dtype=np.int64)
    np.add.at(moved, plan.use_level, task.program.use_bytes)
    tensor, source, target = plan.transfers[:, :3].T
    for end in (source, target):
        np.add.at(moved, end, task.program.tensor_bytes[tensor])
    return moved


def _peak_bytes(task: Task, plan: MemoryPlan) -> Ints:
    """Return int64[L], see `Report.peak_bytes`."""
    program = task.program
    change = np.zeros((program.num_ops + 2, task.accelerator.num_levels), dtype=np.int64)
    add_blocks(change, plan.allocations, program.tensor_bytes)
    served = np.zeros(program.num_tensors, dtype=bool)
    served[program.use_tensor[plan.use_level == task.backing]] = True
    served[plan.transfers[(plan.transfers[:, 1:3] == task.backing).any(axis=1), 0]] = True
    result = (program.producer >= 0) & served
    np.add.at(change[:, -1], program.live_start[result], program.tensor_bytes[result])
    np.add.at(change[:, -1], program.live_end[result] + 1, -program.tensor_bytes[result])
    constant = (program.producer < 0) & (served | task.streams_weights)
    change[0, -1] += program.tensor_bytes[constant].sum()
    held = change.cumsum(axis=0)
    held[:-1] -= plan.shared_bytes(program, task.accelerator.num_levels)
    held[: program.num_ops] += task.costs.reserved_bytes
    return np.asarray(held.max(axis=0))
