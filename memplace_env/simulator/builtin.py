"""The built-in simulator: exact, deterministic, in integer picoseconds."""

from __future__ import annotations

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.simulator.costs import Costs, cost_tables
from memplace_env.simulator.kernels import port_times, run_transfers
from memplace_env.simulator.lower_bound import lower_bound
from memplace_env.simulator.report import SECONDS, Report
from memplace_env.workload.program import Ints, Program


class BuiltinSimulator:
    """An op takes the larger of its compute time and its port time; copies use what the backing port has left.

    With parallel ports an op's port time is that of its slowest level, with serial ports the levels' times add
    up. `leftover = op time - port time of the backing memory` is free for copies, which share it by earliest
    deadline. A copy that is not done when its last op ends stalls the next one; what remains at the end is the
    tail. The rules are our own, modelled after XLA's and Intel's cost models: neither paper publishes its own.
    """

    name = "builtin"

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Time a plan that is known to be valid; `memplace_env.simulate` checks first."""
        costs = cost_tables(program, accelerator)
        port = port_times(program.use_ptr, plan.use_level, costs.use_ps, costs.latency_ps)
        memory = port.sum(axis=1) if costs.serial else port.max(axis=1)
        op_time = np.maximum(costs.compute_ps, memory) + costs.overhead_ps
        stall, tail = self._copies(costs, op_time - port[:, -1], accelerator, plan)
        bound_by = np.where(costs.compute_ps >= memory, -1, port.argmax(axis=1)).astype(np.int8)
        latency = int(op_time.sum() + stall.sum() + tail)
        return Report(
            latency_ps=latency,
            op_time_ps=op_time,
            compute_ps=costs.compute_ps,
            port_ps=port,
            stall_ps=stall,
            tail_ps=tail,
            bound_by=bound_by,
            bytes_moved=_bytes_moved(program, accelerator, plan),
            peak_bytes=_peak_bytes(program, accelerator, plan),
            energy_j=energy_j(_dynamic_pj(costs, plan), latency, accelerator),
            lower_bound_ps=lower_bound(program, accelerator),
            level_names=tuple(level.name for level in accelerator.levels),
        )

    @staticmethod
    def _copies(costs: Costs, leftover: Ints, accelerator: Accelerator, plan: MemoryPlan) -> tuple[Ints, int]:
        tensor, source, _, start, end = plan.transfers.T
        order = np.lexsort((start, end))
        demand = np.where(source == accelerator.backing, costs.prefetch_ps[tensor], costs.writeback_ps[tensor])
        stall, tail = run_transfers(leftover, start[order], end[order], demand[order])
        return stall, int(tail)


def energy_j(dynamic_pj: int, latency_ps: int, accelerator: Accelerator) -> float:
    """Joules: what ops and copies take, plus static power over the latency."""
    return dynamic_pj * 1e-12 + accelerator.static_power_w * latency_ps * SECONDS


def _dynamic_pj(costs: Costs, plan: MemoryPlan) -> int:
    uses = np.take_along_axis(costs.use_pj, plan.use_level.astype(np.int64)[:, None], axis=1).sum()
    tensor, source, target = plan.transfers[:, :3].T
    return int(costs.compute_pj.sum() + uses + costs.copy_pj[tensor, np.minimum(source, target)].sum())


def _bytes_moved(program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Ints:
    moved = np.zeros(accelerator.num_levels, dtype=np.int64)
    np.add.at(moved, plan.use_level, program.use_bytes)
    tensor, source, target = plan.transfers[:, :3].T
    for end in (source, target):
        np.add.at(moved, end, program.tensor_bytes[tensor])
    return moved


def _peak_bytes(program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Ints:
    """Blocks at their fullest; in the backing memory, all weights and inputs and the results that no block holds."""
    tensor, level, _, start, end = plan.allocations.T
    change = np.zeros((program.num_ops + 2, accelerator.num_levels), dtype=np.int64)
    np.add.at(change, (start, level), program.tensor_bytes[tensor])
    np.add.at(change, (end + 1, level), -program.tensor_bytes[tensor])
    served = np.zeros(program.num_tensors, dtype=bool)
    served[program.use_tensor[plan.use_level == accelerator.backing]] = True
    served[plan.transfers[:, 0]] = True
    made = (program.producer >= 0) & served
    np.add.at(change[:, -1], program.live_start[made], program.tensor_bytes[made])
    np.add.at(change[:, -1], program.live_end[made] + 1, -program.tensor_bytes[made])
    constant = (program.producer < 0) & (served | (accelerator.weights == "streamed"))
    change[0, -1] += program.tensor_bytes[constant].sum()
    return np.asarray(change.cumsum(axis=0).max(axis=0))
