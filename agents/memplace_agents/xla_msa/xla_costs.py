"""The figures of XLA's cost analysis of a program, in the simulator's own picoseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env.machine.costs import op_times
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints


class OpCosts(NamedTuple):
    """Op times in picoseconds, as the simulator computes them.

    Attributes:
        compute_ps: int64[T].
        memory_ps: int64[T], port time with everything in the backing memory.
        elapsed_ps: int64[T], op time with everything in the backing memory.
        alone_memory_ps: int64[U], port time of the use's op with nothing but this use served by fast memory.
        alone_elapsed_ps: int64[U], op time of the same.
    """

    compute_ps: Ints
    memory_ps: Ints
    elapsed_ps: Ints
    alone_memory_ps: Ints
    alone_elapsed_ps: Ints


@derived
def op_costs(task: Task) -> OpCosts:
    """Return the costs on a machine with two levels.

    XLA adds a pipeline overhead, whose default is 0.
    """
    program, costs = task.program, task.costs
    fast_ps, backing_ps = costs.use_ps.T
    used = np.zeros((program.num_ops, 2), dtype=np.int64)
    np.add.at(used[:, 1], program.use_op, backing_ps)
    backed = op_times(costs, used)
    rest = used[program.use_op, 1] - backing_ps
    alone = op_times(costs, np.stack([fast_ps, rest], axis=1), program.use_op)
    return OpCosts(
        compute_ps=costs.compute_ps,
        memory_ps=backed.memory_ps,
        elapsed_ps=backed.op_ps,
        alone_memory_ps=alone.memory_ps,
        alone_elapsed_ps=alone.op_ps,
    )
