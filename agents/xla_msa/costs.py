"""What XLA's cost analysis knows of a program, in the simulator's own picoseconds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.simulator import cost_tables
from memplace_env.workload.program import Ints, Program


class OpCosts(NamedTuple):
    """Times in picoseconds, all of them the simulator's.

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


def op_costs(program: Program, accelerator: Accelerator) -> OpCosts:
    """The costs on a machine with two levels.

    XLA counts a pipeline overhead on top, whose default is nothing.
    """
    tables = cost_tables(program, accelerator)
    fast_ps, backing_ps = tables.use_ps.T
    busy = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(busy, program.use_op, backing_ps)
    memory = _with_latency(busy, tables.latency_ps[1])
    fast = _with_latency(fast_ps, tables.latency_ps[0])
    rest = _with_latency(busy[program.use_op] - backing_ps, tables.latency_ps[1])
    alone = fast + rest if tables.serial else np.maximum(fast, rest)
    return OpCosts(
        compute_ps=tables.compute_ps,
        memory_ps=memory,
        elapsed_ps=np.maximum(tables.compute_ps, memory) + tables.overhead_ps,
        alone_memory_ps=alone,
        alone_elapsed_ps=np.maximum(tables.compute_ps[program.use_op], alone) + tables.overhead_ps,
    )


def _with_latency(port_ps: Ints, latency_ps: int) -> Ints:
    return np.asarray(port_ps + np.where(port_ps > 0, latency_ps, 0))
