"""What a game of mallocGame consists of: tables that never change, and a state that is one int64 array.

Copying the array forks the game. Its head has the fields below; `Layout` says where its other sections begin.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.costs import op_times
from memplace_env.errors import WorkloadError
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints, Program, TensorKind

COPY, NO_COPY, DROP = 0, 1, 2
ACTIONS = ("Copy", "NoCopy", "Drop")

NEVER: Final = np.int64(2**40)
"""Stands for the op of an event that has not happened: later than every op."""

USE: Final = 0
"""The use that is decided next; U once the game is over."""
OP: Final = 1
"""Its op, the first that is not final; T once the game is over."""
BLOCKS: Final = 2
"""Blocks placed so far."""
LIVE: Final = 3
"""Length of the list `live`."""
PAST: Final = 4
"""Length of the list `past`."""
QUEUE_HEAD: Final = 5
"""Place in `queue` of the oldest write-back that is pending."""
QUEUE_TAIL: Final = 6
"""Length of `queue`."""
MASK: Final = 7
"""Legal actions as bits: 1 << action; 0 once the game is over."""
FINAL_PS: Final = 8
"""Time of all final ops."""
STALL_PS: Final = 9
"""Time that ops wait."""
TAIL_PS: Final = 10
"""Time after the last op that finishes the write-backs; 0 before the end."""
OPEN_PS: Final = 11
"""Time that the open op's undecided uses would take in the backing memory."""
ESTIMATE: Final = 12
"""Estimated latency in ps, exact once the game is over."""
FAST_PS: Final = 13
"""Time that the open op's decided uses keep the fast level's port busy."""
BACKING_PS: Final = 14
"""Time that they keep the backing memory's port busy; the field after `FAST_PS`."""
HEAD: Final = 15
"""Number of these fields."""

PASSING, LASTING = 0, 1
"""Columns of `Tables.ceiling`."""


class Tables(NamedTuple):
    """What never changes; T ops, K tensors, U uses; level 0 is fast, level 1 the backing memory.

    Attributes:
        use_ptr: int64[T + 1].
        use_op, use_tensor: int64[U].
        use_is_result: bool[U].
        last_use, last_op: int64[K], the last use of each tensor, and its op.
        is_output: bool[K].
        made: bool[K], results; weights and inputs start in the backing memory.
        size: int64[K], bytes.
        capacity: bytes of the fast level.
        usable: int64[T], bytes of the fast level below what each op reserves for itself.
        ceiling: int64[U, 2], the least of these from a result's op on, or from the op before that of an operand: column
            PASSING until its tensor's last use, of the result that is a graph output to the end; LASTING to the end.
        compute_ps, overhead_ps, use_ps, latency_ps, serial, prefetch_ps, writeback_ps: as in `Costs`; flat, as numba
            counts references whenever a kernel takes a tuple out of a tuple.
        rest_ps: int64[T + 1], time of ops t.. with everything in the backing memory; rest_ps[0] is the whole.
    """

    use_ptr: Ints
    use_op: Ints
    use_tensor: Ints
    use_is_result: NDArray[np.bool_]
    last_use: Ints
    last_op: Ints
    is_output: NDArray[np.bool_]
    made: NDArray[np.bool_]
    size: Ints
    capacity: int
    usable: Ints
    ceiling: Ints
    compute_ps: Ints
    overhead_ps: Ints
    use_ps: Ints
    latency_ps: Ints
    serial: bool
    prefetch_ps: Ints
    writeback_ps: Ints
    rest_ps: Ints


def game_tables(task: Task) -> Tables:
    """The tables of a program on a machine with two levels.

    Weights start in the backing memory, whatever the machine's own policy.

    Raises:
        WorkloadError: if the machine has more levels.
    """
    program, accelerator, costs = task.program, task.accelerator, task.costs
    if accelerator.num_levels != 2:
        raise WorkloadError(
            f"The game is played on machines with two memory levels; {accelerator.name!r} has {accelerator.num_levels}."
        )
    used = np.zeros((program.num_ops, 2), dtype=np.int64)
    np.add.at(used[:, 1], program.use_op, costs.use_ps[:, 1])
    capacity = accelerator.levels[0].capacity_bytes
    usable = capacity - costs.reserved_bytes[:, 0]
    return Tables(
        use_ptr=program.use_ptr,
        use_op=program.use_op,
        use_tensor=program.use_tensor,
        use_is_result=program.use_is_result,
        last_use=program.last_use,
        last_op=program.use_op[program.last_use],
        is_output=program.tensor_kind == TensorKind.OUTPUT,
        made=program.producer >= 0,
        size=program.tensor_bytes,
        capacity=capacity,
        usable=usable,
        ceiling=_ceilings(program, usable),
        compute_ps=costs.compute_ps,
        overhead_ps=costs.overhead_ps,
        use_ps=costs.use_ps,
        latency_ps=costs.latency_ps,
        serial=costs.serial,
        prefetch_ps=costs.prefetch_ps,
        writeback_ps=costs.writeback_ps,
        rest_ps=np.append(np.cumsum(op_times(costs, used).op_ps[::-1])[::-1], 0),
    )


def _ceilings(program: Program, usable: Ints) -> Ints:
    """`Tables.ceiling`."""
    to_the_end = program.use_is_result & (program.tensor_kind == TensorKind.OUTPUT)[program.use_tensor]
    first = np.maximum(program.use_op - ~program.use_is_result, 0)
    last = np.where(to_the_end, program.num_ops - 1, program.use_op[program.last_use[program.use_tensor]])
    spans = zip(first.tolist(), last.tolist(), strict=True)
    passing = np.array([usable[begin : end + 1].min() for begin, end in spans], dtype=np.int64)
    return np.stack([passing, np.minimum.accumulate(usable[::-1])[::-1][first]], axis=1)


class Layout(NamedTuple):
    """Where the sections of a state begin, and its length.

    Sections of K: `valid_from` (first op at which the backing memory holds the tensor, or NEVER), `block` (the tensor's
    latest block, -1 before any), `intact` (that block still holds the data), `used` (the last op that used that block),
    `turn` (place of the tensor's write-back in the queue, -1 before), `sent`, `drained` (first and last op of the
    write-back, -1 before), `queue` (tensors in the order in which they are sent back).

    Sections of U: `level` (of each decided use); of each block ever placed `offset`, `top`, `tensor`, `start`, `hold`
    (last op it is committed to, NEVER while protected), `stays` (the op in which its space may become free: that of
    the last use of its data while it is of use, else `hold`), `arrived` (last op of the copy that filled it, -1 if an
    op did), `released` (last op it was protected in, NEVER while it is, -1 if it never was); lists of blocks `live`
    (held in the op before the current one or later, or still of use; by offset) and `past` (not held since then; by
    hold). A cached block that is still of use is in both.

    Sections of T: `free` (backing port time of each final op that no copy has booked) and `stall` (how long each op
    waits).
    """

    valid_from: int
    block: int
    intact: int
    used: int
    turn: int
    sent: int
    drained: int
    queue: int
    level: int
    offset: int
    top: int
    tensor: int
    start: int
    hold: int
    stays: int
    arrived: int
    released: int
    live: int
    past: int
    free: int
    stall: int
    size: int


def layout_of(tables: Tables) -> Layout:
    """The layout of this game's states."""
    tensors, uses, ops = len(tables.size), len(tables.use_op), len(tables.rest_ps) - 1
    lengths = [HEAD, *[tensors] * 8, *[uses] * 11, *[ops] * 2]
    return Layout(*np.cumsum(lengths).tolist())


def plan_of(task: Task, layout: Layout, state: Ints) -> MemoryPlan:
    """The MemoryPlan of a finished game."""
    ops, tensors, count = task.program.num_ops, task.program.num_tensors, state[BLOCKS]
    tensor, start, hold, offset, arrived = (
        state[section:][:count] for section in (layout.tensor, layout.start, layout.hold, layout.offset, layout.arrived)
    )
    # Only a write-back that never ends protects its block to the end.
    blocks = np.stack([tensor, np.zeros_like(tensor), offset, start, np.minimum(hold, ops)], axis=1)
    copied = arrived >= 0
    backing, fast = np.ones_like(tensor[copied]), np.zeros_like(tensor[copied])
    prefetches = np.stack([tensor[copied], backing, fast, start[copied], arrived[copied]], axis=1)
    sent, drained = state[layout.sent :][:tensors], state[layout.drained :][:tensors]
    back = np.flatnonzero(sent >= 0)
    last = np.where(drained[back] >= 0, drained[back], ops)
    writes = np.stack([back, np.zeros_like(back), np.ones_like(back), sent[back], last], axis=1)
    levels = state[layout.level :][: task.program.num_uses]
    return MemoryPlan.of(task, levels, blocks, np.vstack([prefetches, writes]))
