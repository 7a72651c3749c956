"""What a game of mallocGame consists of: tables that never change, and a state that is one int64 row.

Copying the row forks the game. `Layout` says where its sections begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.errors import WorkloadError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import cost_tables
from memplace_env.workload.program import Ints, Program, TensorKind

COPY, NO_COPY, DROP = 0, 1, 2
ACTIONS = ("Copy", "NoCopy", "Drop")
NEVER = np.int64(2**40)
"""Op at which something that has not happened yet will have happened."""


class Tables(NamedTuple):
    """What never changes; T ops, K tensors, U uses; level 0 is fast, level 1 the backing memory.

    Attributes:
        use_ptr: int64[T + 1].
        use_op, use_tensor: int64[U].
        use_is_result: bool[U].
        last_use: int64[K], the last use of each tensor.
        is_output: bool[K].
        made: bool[K], results; weights and inputs start in the backing memory.
        size: int64[K], bytes.
        capacity: bytes of the fast level.
        use_ps: int64[U, 2].
        latency_ps: int64[2].
        compute_ps: int64[T].
        overhead_ps: int.
        serial: bool.
        prefetch_ps, writeback_ps: int64[K].
        rest_ps: int64[T + 1], time of ops t.. with everything in the backing memory; rest_ps[0] is the whole.
    """

    use_ptr: Ints
    use_op: Ints
    use_tensor: Ints
    use_is_result: NDArray[np.bool_]
    last_use: Ints
    is_output: NDArray[np.bool_]
    made: NDArray[np.bool_]
    size: Ints
    capacity: int
    use_ps: Ints
    latency_ps: Ints
    compute_ps: Ints
    overhead_ps: int
    serial: bool
    prefetch_ps: Ints
    writeback_ps: Ints
    rest_ps: Ints


def game_tables(program: Program, accelerator: Accelerator) -> Tables:
    """The tables of a program on a machine with two levels.

    The game streams weights whatever the machine's own policy: they start in the backing memory.

    Raises:
        WorkloadError: if the machine has more levels.
    """
    if accelerator.num_levels != 2:
        raise WorkloadError(
            f"The game is played on machines with two memory levels; {accelerator.name!r} has {accelerator.num_levels}."
        )
    costs = cost_tables(program, accelerator)
    last_use = np.zeros(program.num_tensors, dtype=np.int64)
    np.maximum.at(last_use, program.use_tensor, np.arange(program.num_uses))
    backing = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(backing, program.use_op, costs.use_ps[:, 1])
    backing += np.where(backing > 0, costs.latency_ps[1], 0)
    op_ps = np.maximum(costs.compute_ps, backing) + costs.overhead_ps
    return Tables(
        use_ptr=program.use_ptr,
        use_op=program.use_op,
        use_tensor=program.use_tensor,
        use_is_result=program.use_is_result,
        last_use=last_use,
        is_output=program.tensor_kind == TensorKind.OUTPUT,
        made=program.producer >= 0,
        size=program.tensor_bytes,
        capacity=accelerator.levels[0].capacity_bytes,
        use_ps=costs.use_ps,
        latency_ps=costs.latency_ps,
        compute_ps=costs.compute_ps,
        overhead_ps=costs.overhead_ps,
        serial=costs.serial,
        prefetch_ps=costs.prefetch_ps,
        writeback_ps=costs.writeback_ps,
        rest_ps=np.concatenate([np.cumsum(op_ps[::-1])[::-1], [0]]),
    )


# Fields at the head of a state row.
USE, OP, BLOCKS, LIVE, PAST, QUEUE_HEAD, QUEUE_TAIL, MASK, OFFSET, WINDOW = range(10)
FINAL_PS, TAIL_PS, OPEN_PS, ESTIMATE, PORT_PS = range(10, 15)
HEAD = 16
"""Next use and its op; numbers of blocks, of live ones and past ones; ends of the write-back queue; legal actions as
bits; offset and first op of the block that the next decision would place; times of final ops, of the tail, of the open
op's undecided uses in the backing memory; estimated latency; port times of the open op's decided uses (two fields)."""


class Layout(NamedTuple):
    """Where the sections of a state row begin, and its length.

    Sections of K: `valid_from` (first op at which the backing memory holds the tensor, or NEVER), `pending` (a
    write-back is under way), `block` (the tensor's latest block, -1 before any), `intact` (that block still holds
    the data), `sent`, `drained` (first and last op of the write-back, -1 before), `queue`, `left` (write-backs in
    order, and what each still needs).

    Sections of U: `level` (of each decided use); of each block ever placed `offset`, `tensor`, `start`, `hold` (last
    op it is committed to, NEVER while protected), `arrived` (last op of the copy that filled it, -1 if an op did),
    `released` (last op it was protected in, NEVER while it is, -1 if it never was); lists of blocks `live` (held or
    still of use, by offset), `past` (all others, by hold) and `both` (scratch).

    Section of T: `free` (backing port time left in each final op).
    """

    valid_from: int
    pending: int
    block: int
    intact: int
    sent: int
    drained: int
    queue: int
    left: int
    level: int
    offset: int
    tensor: int
    start: int
    hold: int
    arrived: int
    released: int
    live: int
    past: int
    both: int
    free: int
    size: int


def layout(tables: Tables) -> Layout:
    """The layout of this game's rows."""
    tensors, uses, ops = len(tables.size), len(tables.use_op), len(tables.compute_ps)
    lengths = [HEAD, *[tensors] * 8, *[uses] * 10, ops]
    return Layout(*np.cumsum(lengths).tolist())


def plan_of(program: Program, accelerator: Accelerator, at: Layout, row: Ints) -> MemoryPlan:
    """The MemoryPlan of a finished game."""
    ops, count = program.num_ops, row[BLOCKS]
    tensor, start, hold, offset, arrived = (
        row[section : section + count] for section in (at.tensor, at.start, at.hold, at.offset, at.arrived)
    )
    # Only a write-back that never drains protects its block to the end.
    blocks = np.stack([tensor, np.zeros_like(tensor), offset, start, np.minimum(hold, ops)], axis=1)
    copied = arrived >= 0
    backing, fast = np.ones_like(tensor[copied]), np.zeros_like(tensor[copied])
    prefetches = np.stack([tensor[copied], backing, fast, start[copied], arrived[copied]], axis=1)
    sent, drained = row[at.sent :][: program.num_tensors], row[at.drained :][: program.num_tensors]
    back = np.flatnonzero(sent >= 0)
    last = np.where(drained[back] >= 0, drained[back], ops)
    writes = np.stack([back, np.zeros_like(back), np.ones_like(back), sent[back], last], axis=1)
    levels = row[at.level :][: program.num_uses]
    return MemoryPlan.of(program, accelerator, levels, blocks, np.vstack([prefetches, writes]))
