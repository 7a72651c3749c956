"""A check of plans by running them: every byte of fast memory, op by op, for two inferences in a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind
from tests.references.reference_simulator import uses_of

NOTHING = -1
"""Stands for the tensor in bytes that hold no data."""


class Block(NamedTuple):
    """Bytes `offset`..`top` - 1 of a level, the tensor's during ops start..end."""

    tensor: int
    level: int
    offset: int
    top: int
    start: int
    end: int

    def covers(self, first: int, last: int) -> bool:
        """Return whether the block lasts so long."""
        return self.start <= first and last <= self.end


class Copy(NamedTuple):
    """A copy of the tensor between `level` and the backing memory during ops first..last."""

    tensor: int
    level: int
    is_prefetch: bool
    first: int
    last: int


def can_run(task: Task, plan: MemoryPlan) -> bool:
    """Return whether each op finds its operands where the plan says, and every graph output gets home.

    Bytes that no block holds during an op are lost, as are those of a block that begins. Resident weights are loaded
    before the first inference into the blocks that last from one to the next, and never again: the second inference
    must do with what the first has left.
    """
    if not _in_range(task, plan) or not all(_may_lie(task, *place) for place in _places(task, plan)):
        return False
    blocks = [
        Block(tensor, level, offset, offset + int(task.program.tensor_bytes[tensor]), start, end)
        for tensor, level, offset, start, end in plan.allocations.tolist()
    ]
    copies = [
        Copy(tensor, min(source, target), source == task.backing, start, end)
        for tensor, source, target, start, end in plan.transfers.tolist()
    ]
    if not all(_room(task, blocks, copies, op) for op in range(task.program.num_ops + 1)):
        return False
    memory = [np.full(level.capacity_bytes, NOTHING) for level in task.accelerator.levels[:-1]]
    for block in blocks:
        if _is_resident(task, block):
            memory[block.level][block.offset : block.top] = block.tensor
    return all(_infers(task, plan, blocks, copies, memory) for _ in range(2))


def _in_range(task: Task, plan: MemoryPlan) -> bool:
    program, backing = task.program, task.backing
    tensors, levels, times = range(program.num_tensors), range(backing), range(program.num_ops + 1)
    return (
        len(plan.use_level) == program.num_uses
        and all(level in range(backing + 1) for level in plan.use_level.tolist())
        and all(
            tensor in tensors and level in levels and offset >= 0 and start <= end and {start, end} <= set(times)
            for tensor, level, offset, start, end in plan.allocations.tolist()
        )
        and all(
            tensor in tensors and min(ends) in levels and max(ends) == backing and first <= last
            and {first, last} <= set(times)
            for tensor, *ends, first, last in plan.transfers.tolist()
        )
    )  # fmt: skip


def _places(task: Task, plan: MemoryPlan) -> list[tuple[int, int, int]]:
    """Return tensor, level and offset of each block, and of each use of the backing memory, which is at offset 0."""
    blocks = [(tensor, level, offset) for tensor, level, offset, _, _ in plan.allocations.tolist()]
    uses = zip(task.program.use_tensor.tolist(), plan.use_level.tolist(), strict=True)
    return blocks + [(tensor, level, 0) for tensor, level in uses if level == task.backing]


def _may_lie(task: Task, tensor: int, level: int, offset: int) -> bool:
    """Return whether the memory holds such tensors, as large, at such addresses, and those of the caller's there."""
    program, chip = task.program, task.accelerator
    memory, io_level = chip.levels[level], task.settings.get("io_level", "backing")
    kind = "weights" if program.tensor_kind[tensor] == TensorKind.WEIGHT else "activations"
    used_by = {program.op_type[op] for op in program.use_op[program.use_tensor == tensor].tolist()}
    elsewhere = io_level not in ("any", memory.name) and not used_by.isdisjoint(("Inputs", "Outputs"))
    most = memory.largest_block_bytes
    too_large = most is not None and level < chip.backing and program.tensor_bytes[tensor] > most
    unaligned = offset % task.settings.get("alignment", 1) > 0
    return kind in memory.holds and not elsewhere and not too_large and not unaligned


def _room(task: Task, blocks: list[Block], copies: list[Copy], op: int) -> bool:
    """Return whether each byte has at most one owner during the op, and none that is not there or that the op needs.

    An operand and one result that may lie in its place count as one owner, unless the operand is still on its way home.
    """
    reserved = task.costs.reserved_bytes
    for level, memory in enumerate(task.accelerator.levels[:-1]):
        usable = memory.capacity_bytes - (int(reserved[op, level]) if op < task.program.num_ops else 0)
        held = [block for block in blocks if block.level == level and block.covers(op, op)]
        if len({block.tensor for block in held}) < len(held) or any(block.top > usable for block in held):
            return False
        owners = np.zeros(memory.capacity_bytes, dtype=np.int64)
        leaving = {copy.tensor for copy in copies if not copy.is_prefetch and copy.level == level and copy.last >= op}
        ending = [block for block in held if block.start < op == block.end and block.tensor not in leaving]
        given = {block.offset: block.tensor for block in ending}
        for block in held:
            owner = given.get(block.offset)
            in_place = block.start == op and owner is not None and _may_replace(task, op, owner, block.tensor)
            if in_place:
                del given[block.offset]  # it gives once
            owners[block.offset : block.top] += not in_place
        if (owners > 1).any():
            return False
    return True


def _may_replace(task: Task, op: int, operand: int, result: int) -> bool:
    """Return whether the op may write the result over the operand, which no later op reads."""
    program = task.program
    tensors, ops = program.use_tensor.tolist(), program.use_op.tolist()
    paired = any(
        (tensors[use], tensors[its]) == (operand, result) and ops[use] == op for use, its in program.inplace.tolist()
    )
    return paired and not any(op < at and tensor == operand for at, tensor in zip(ops, tensors, strict=True))


def _is_resident(task: Task, block: Block) -> bool:
    is_weight = bool(task.program.tensor_kind[block.tensor] == TensorKind.WEIGHT)
    return is_weight and not task.streams_weights and block.covers(0, task.program.num_ops - 1)


def _infers(
    task: Task, plan: MemoryPlan, blocks: list[Block], copies: list[Copy], memory: list[NDArray[np.int64]]
) -> bool:
    """Run an inference; `memory` is what the tensors in each byte are before and after."""
    program, backing = task.program, task.backing
    ops = program.num_ops
    at_home = set(np.flatnonzero(program.producer < 0).tolist())

    def holding(tensor: int, level: int, first: int, last: int) -> Block | None:
        return next((b for b in blocks if (b.tensor, b.level) == (tensor, level) and b.covers(first, last)), None)

    def holds(block: Block | None) -> bool:
        return block is not None and bool((memory[block.level][block.offset : block.top] == block.tensor).all())

    for op in range(ops + 2):  # op T is the end, by which copies may still run, and T + 1 is after it
        at_home |= {copy.tensor for copy in copies if not copy.is_prefetch and copy.last == op - 1}
        for use in uses_of(program, op - 1) if 0 < op <= ops else ():
            if program.use_is_result[use] and plan.use_level[use] == backing:
                at_home.add(int(program.use_tensor[use]))
        if op < ops:
            _forget(task, blocks, memory, op)
        for copy in copies:
            if copy.is_prefetch and copy.first == op:
                if copy.tensor not in at_home or not holding(copy.tensor, copy.level, op, copy.last + 1):
                    return False
            elif copy.is_prefetch and copy.last == op - 1:
                block = holding(copy.tensor, copy.level, copy.first, op)
                assert block is not None
                memory[block.level][block.offset : block.top] = block.tensor
        for use in uses_of(program, op) if op < ops else ():
            tensor, level = int(program.use_tensor[use]), int(plan.use_level[use])
            if program.use_is_result[use]:
                begun = [b for b in blocks if (b.tensor, b.level, b.start) == (tensor, level, op)]
                if level != backing and not begun:
                    return False
                for block in begun:
                    memory[level][block.offset : block.top] = tensor
            elif not (tensor in at_home if level == backing else holds(holding(tensor, level, op, op))):
                return False
        for copy in copies:
            starts = not copy.is_prefetch and copy.first == op + 1
            if starts and not holds(holding(copy.tensor, copy.level, op, copy.last)):
                return False
    outputs = np.flatnonzero(program.tensor_kind == TensorKind.OUTPUT)
    return at_home.issuperset(outputs.tolist()) and not any(not c.is_prefetch and c.first == 0 for c in copies)


def _forget(task: Task, blocks: list[Block], memory: list[NDArray[np.int64]], op: int) -> None:
    """Return the bytes lost before an op: those of no block, and of a block that begins without being resident."""
    for level, held in enumerate(memory):
        kept = np.zeros(len(held), dtype=bool)
        for block in blocks:
            if block.level == level and block.covers(op, op) and (block.start < op or _is_resident(task, block)):
                kept[block.offset : block.top] = True
        held[~kept] = NOTHING
