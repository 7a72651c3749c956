"""Parts of a game: tables that never change, and a state that is one int64 array.

Copying the array forks the game. Its head has the fields below; `StateLayout` says where its other sections begin.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import shown
from memplace_env.machine.costs import Costs, op_times
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program, TensorKind

COPY, NO_COPY, DROP = 0, 1, 2
ACTIONS = ("Copy", "NoCopy", "Drop")

NEVER: Final = np.int64(2**40)
"""Op of an event that has not happened: later than every op."""

USE: Final = 0
"""Use that is decided next; U once the game is over."""
OP: Final = 1
"""Op of that use, the first that is not final; T once the game is over."""
BLOCKS: Final = 2
"""Number of blocks placed so far."""
LIVE: Final = 3
"""Length of the list `live`."""
PAST: Final = 4
"""Length of the list `past`."""
QUEUE_HEAD: Final = 5
"""Index in `queue` of the oldest pending write-back."""
QUEUE_TAIL: Final = 6
"""Length of `queue`."""
MASK: Final = 7
"""Legal actions as bits: 1 << action; 0 once the game is over."""
FINAL_PS: Final = 8
"""Time of all final ops, ps."""
STALL_PS: Final = 9
"""Time that ops have waited, ps."""
TAIL_PS: Final = 10
"""Time after the last op that finishes the write-backs, ps; 0 before the end."""
OPEN_PS: Final = 11
"""Time that the current op's undecided uses would take in the backing memory, ps."""
ESTIMATE: Final = 12
"""Estimated latency, ps; exact once the game is over."""
FAST_PS: Final = 13
"""Time that the current op's decided uses keep the fast level's port busy, ps."""
BACKING_PS: Final = 14
"""Time that they keep the backing memory's port busy, ps; the field after `FAST_PS`."""
HEAD: Final = 15
"""Number of these fields."""

PASSING, LASTING, GIVERS = 0, 1, 2
"""Columns of `Tables.room`; `GIVERS` is the first of several."""


class Tables(NamedTuple):
    """Tables of T ops, K tensors, U uses that never change; level 0 is fast, level 1 the backing memory.

    Attributes:
        use_ptr: int64[T + 1], op t has uses use_ptr[t]..use_ptr[t + 1] - 1.
        use_op, use_tensor: int64[U], op and tensor of each use.
        use_is_result: bool[U], whether the use makes the tensor.
        last_use, last_op: int64[K], the last use of each tensor, and its op.
        is_output: bool[K], graph outputs.
        is_result: bool[K], results of ops; weights and inputs start in the backing memory.
        size: int64[K], bytes.
        capacity: bytes of the fast level, whole units of the alignment.
        usable: int64[T], likewise the bytes of it below what each op reserves for itself.
        room: int64[U, 2 + n], where the block of a use may lie: below the minimum of `usable` from a result's op on, or
            from the op before an operand's, which is column PASSING until the tensor's last use, or to the end for
            results that are graph outputs, and LASTING to the end, -1 each if the level may not hold the tensor; from
            GIVERS on, the operands in whose place the result may be made, then -1.
        costs: those of the task.
        rest_ps: int64[T + 1], time of ops t..T - 1 with everything in the backing memory.
    """

    use_ptr: Ints
    use_op: Ints
    use_tensor: Ints
    use_is_result: NDArray[np.bool_]
    last_use: Ints
    last_op: Ints
    is_output: NDArray[np.bool_]
    is_result: NDArray[np.bool_]
    size: Ints
    capacity: int
    usable: Ints
    room: Ints
    costs: Costs
    rest_ps: Ints


def game_tables(task: Task) -> Tables:
    """Return the tables of a program on a machine with two levels.

    Weights start in the backing memory, whatever the machine's own policy.

    Raises:
        WorkloadError: if the machine has more levels, or a tensor may not lie in the backing memory.
    """
    program, accelerator, costs = task.program, task.accelerator, task.costs
    if accelerator.num_levels != 2:
        raise WorkloadError(
            f"The game is played on machines with two memory levels; {accelerator.name!r} has {accelerator.num_levels}."
        )
    for tensor in np.flatnonzero(task.must_leave)[:1].tolist():
        raise WorkloadError(
            "The game is played on machines whose backing memory may hold everything; "
            f"{shown(program.tensor_name[tensor])} of {program.name!r} may not lie in {accelerator.levels[-1].name} of "
            f"{accelerator.name!r}: leave out what says so (a pin, io_level, holds), or take MemPlace or MemPlaceSteps."
        )
    used = np.zeros((program.num_ops, 2), dtype=np.int64)
    np.add.at(used[:, 1], program.use_op, costs.use_ps[:, 1])
    usable = task.room_bytes(0)[:-1]
    ceilings = np.where(task.allowed[program.use_tensor, :1], _ceilings(program, usable), -1)
    # Copies may be written to, as the views of `array_rows` may: else each kernel were compiled for two types.
    return Tables(
        use_ptr=program.use_ptr.copy(),
        use_op=program.use_op.copy(),
        use_tensor=program.use_tensor.copy(),
        use_is_result=program.use_is_result.copy(),
        last_use=program.last_use.copy(),
        last_op=program.use_op[program.last_use],
        is_output=program.tensor_kind == TensorKind.OUTPUT,
        is_result=program.producer >= 0,
        size=program.tensor_bytes.copy(),
        capacity=int(task.capacities[0]),
        usable=usable,
        room=np.concatenate([ceilings, _givers(program)], axis=1),
        costs=costs,
        rest_ps=np.append(np.cumsum(op_times(costs, used).op_ps[::-1])[::-1], 0),
    )


def _givers(program: Program) -> Ints:
    """Return the columns of `Tables.room` from GIVERS on."""
    givers: list[list[int]] = [[] for _ in range(program.num_uses)]
    for operand, result, _ in program.handovers.tolist():
        givers[program.first_use[result]].append(operand)
    most = max(map(len, givers), default=0)
    return np.array([row + [-1] * (most - len(row)) for row in givers], dtype=np.int64).reshape(program.num_uses, most)


def _ceilings(program: Program, usable: Ints) -> Ints:
    """Return the columns PASSING and LASTING of `Tables.room`."""
    to_the_end = program.use_is_result & (program.tensor_kind == TensorKind.OUTPUT)[program.use_tensor]
    first = np.maximum(program.use_op - ~program.use_is_result, 0)
    last = np.where(to_the_end, program.num_ops - 1, program.use_op[program.last_use[program.use_tensor]])
    spans = zip(first.tolist(), last.tolist(), strict=True)
    passing = np.array([usable[begin : end + 1].min() for begin, end in spans], dtype=np.int64)
    return np.stack([passing, np.minimum.accumulate(usable[::-1])[::-1][first]], axis=1)


class StateLayout(NamedTuple):
    """Index at which each section of a state begins, and the state's length.

    Sections of length K hold a value for each tensor. Sections of length U follow the uses, or the blocks: at most one
    block is placed for each use, and blocks are numbered in the order of placing. Sections of length T follow the ops.
    """

    valid_from: int
    """K: first op at which the backing memory holds the tensor, or NEVER."""
    block: int
    """K: the tensor's latest block, -1 before any."""
    intact: int
    """K: 1 if that block still holds the tensor's data."""
    used: int
    """K: last op that used that block."""
    turn: int
    """K: index in `queue` of the tensor's write-back, -1 before."""
    sent: int
    """K: first op of the write-back, -1 before."""
    drained: int
    """K: last op of the write-back, -1 before it has ended."""
    queue: int
    """K: tensors in the order in which they are sent back; `QUEUE_HEAD`..`QUEUE_TAIL` - 1 are pending."""
    level: int
    """U: memory level of each decided use."""
    offset: int
    """U: address at which the block begins, bytes."""
    top: int
    """U: address after the block's last byte."""
    tensor: int
    """U: tensor that the block holds."""
    start: int
    """U: first op of the block."""
    committed_until: int
    """U: last op for which the block is needed, NEVER while it is protected."""
    live_until: int
    """U: op in which the block's space may become free: that of the last use of its data while the block is intact and
    uses are left, else `committed_until`."""
    arrived: int
    """U: last op of the copy that filled the block, -1 if an op did, -2 - b if an op did in the place of block b."""
    released: int
    """U: last op in which the block was protected, NEVER while it is, -1 if it never was."""
    live: int
    """U: list of blocks by offset that are committed until the op before the current one or later, or live as long."""
    past: int
    """U: list of blocks by `committed_until` that are committed to earlier ops only; cached ones with uses left are in
    both lists."""
    free: int
    """T: time of the backing memory's port in each final op that no copy has booked, ps."""
    stall: int
    """T: time that each op waits before it starts, ps."""
    size: int
    """Length of a state."""


def layout_of(tables: Tables) -> StateLayout:
    """Return the layout of this game's states."""
    tensors, uses, ops = len(tables.size), len(tables.use_op), len(tables.rest_ps) - 1
    lengths = [HEAD, *[tensors] * 8, *[uses] * 11, *[ops] * 2]
    return StateLayout(*np.cumsum(lengths).tolist())


def plan_of(task: Task, layout: StateLayout, state: Ints) -> MemoryPlan:
    """Return the MemoryPlan of a finished game."""
    ops, tensors, count = task.program.num_ops, task.program.num_tensors, state[BLOCKS]
    tensor, start, committed_until, offset, arrived = (
        state[section:][:count]
        for section in (layout.tensor, layout.start, layout.committed_until, layout.offset, layout.arrived)
    )
    # Only a write-back that never ends protects its block to the end.
    blocks = np.stack([tensor, np.zeros_like(tensor), offset, start, np.minimum(committed_until, ops)], axis=1)
    copied = arrived >= 0
    backing, fast = np.ones_like(tensor[copied]), np.zeros_like(tensor[copied])
    prefetches = np.stack([tensor[copied], backing, fast, start[copied], arrived[copied]], axis=1)
    sent, drained = state[layout.sent :][:tensors], state[layout.drained :][:tensors]
    back = np.flatnonzero(sent >= 0)
    last = np.where(drained[back] >= 0, drained[back], ops)
    writes = np.stack([back, np.zeros_like(back), np.ones_like(back), sent[back], last], axis=1)
    levels = state[layout.level :][: task.program.num_uses]
    return task.make_plan(levels, blocks, np.vstack([prefetches, writes]))
