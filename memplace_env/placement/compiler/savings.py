"""Time that levels save, read off the cost arrays as if there were no capacities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.machine.costs import op_times
from memplace_env.machine.costs.op_time_kernels import moved_alone, used_by_level
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints


def latency_ps(task: Task, level: NDArray[np.integer]) -> int:
    """Return the latency with every tensor in its level int[K], if no copies were needed."""
    program, costs = task.program, task.costs
    used = used_by_level(program.use_ptr, level[program.use_tensor], costs.use_ps)
    return int(op_times(costs, used).op_ps.sum())


def move_costs(task: Task, level: NDArray[np.integer]) -> Ints:
    """Return int64[K, L], picoseconds by which the program gets slower if one tensor alone moves to another level.

    Args:
        task: the task; its cost arrays are read, also where a simulator evaluates plans.
        level: int[K], the level that each tensor has.
    """
    program = task.program
    levels = level.astype(np.int64)
    moved: Ints = moved_alone(task.costs, program.use_ptr, program.use_tensor, levels, program.num_tensors)
    return moved


@derived
def saved_per_byte(task: Task) -> NDArray[np.float64]:
    """Return float64[K], picoseconds that a byte of each tensor in the fastest level saves against the backing memory.

    The mean of what it saves if it alone is there, and of what it costs if it alone is not: where an op waits for the
    slowest of its ports, either one alone means little.
    """
    tensors = task.program.num_tensors
    alone = -move_costs(task, np.full(tensors, task.backing))[:, 0]
    missing = move_costs(task, np.zeros(tensors, dtype=np.int64))[:, task.backing]
    density: NDArray[np.float64] = (alone + missing) / (2 * task.program.tensor_bytes)
    return density
