"""Position in a game of mallocGame, in plain Python: the decisions so far, and their consequences.

Nothing here is derived that can be looked up: whether a block still holds its data, whether it is protected, what
the game would take at best in this position are all computed from the list of blocks on demand.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from math import inf
from typing import Self

import numpy as np

from memplace_env._lib.threads import cached_property
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind
from tests.references import reference_simulator

FAST, BACKING = 0, 1


@dataclass
class Block:
    """A block in fast memory from op `start` on.

    `made` is the op that it was placed for, `committed_until` the last op for which it is needed. `copied`: a prefetch
    over start..made-1 fills it. `in_place`: its first op writes it over the operand at the same offset.
    """

    tensor: int
    offset: int
    size: int
    start: int
    made: int
    committed_until: int
    copied: bool
    in_place: bool = False

    @property
    def top(self) -> int:
        """The address after its last."""
        return self.offset + self.size


@dataclass
class WriteBack:
    """A copy to the backing memory from op `start` on, pending until it ends in op `end`.

    `demand` is the port time that it needs. It books none before it ends.
    """

    tensor: int
    start: int
    demand: int
    end: int | None = None


@dataclass
class Setting:
    """Facts that never change during a game of a task; `known` caches times."""

    task: Task
    known: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def last_use(self) -> dict[int, int]:
        return {tensor: use for use, tensor in enumerate(self.task.program.use_tensor.tolist())}

    def last_op(self, tensor: int) -> int:
        """The op of a tensor's last use."""
        return int(self.task.program.use_op[self.last_use[tensor]])

    @cached_property
    def outputs(self) -> set[int]:
        return set(np.flatnonzero(self.task.program.tensor_kind == TensorKind.OUTPUT).tolist())

    @cached_property
    def num_ops(self) -> int:
        return self.task.program.num_ops

    def op(self, op: int, levels: list[int]) -> tuple[int, int]:
        """(time of the op, its leftover) with the uses of the program at such levels."""
        use_level = {use: levels[use] for use in reference_simulator.uses_of(self.task.program, op)}
        key = (op, *use_level.values())
        if key not in self.known:
            ports = reference_simulator.op_ports(self.task, use_level)
            time = reference_simulator.op_time(self.task, op, ports)
            self.known[key] = time, time - ports[BACKING]
        return self.known[key]

    def demand(self, tensor: int, *, prefetch: bool) -> int:
        return reference_simulator.copy_time(self.task, tensor, prefetch=prefetch)


@dataclass
class Position:
    """A game in progress.

    `levels` are the decisions so far; ops before `op` are final, with `free` port time that nothing has booked; `stall`
    is what each op of the program waits for, `tail` what write-backs lack at the end.
    """

    setting: Setting
    valid_from: dict[int, float]
    stall: list[int]
    levels: list[int] = field(default_factory=list)
    op: int = 0
    free: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    write_backs: list[WriteBack] = field(default_factory=list)
    tail: int = 0

    def fork(self) -> Self:
        """The same game, to be played on apart from this one."""
        twin = copy(self)
        twin.valid_from, twin.stall = dict(self.valid_from), list(self.stall)
        twin.levels, twin.free = list(self.levels), list(self.free)
        twin.blocks = [replace(block) for block in self.blocks]
        twin.write_backs = [replace(write) for write in self.write_backs]
        return twin

    @property
    def use(self) -> int:
        """The next decision; the number of uses once the game is over."""
        return len(self.levels)

    @property
    def over(self) -> bool:
        return self.use == self.setting.task.program.num_uses

    @property
    def tensor(self) -> int:
        """Return the tensor whose use is decided next."""
        return int(self.setting.task.program.use_tensor[self.use])

    @property
    def is_result(self) -> bool:
        return bool(self.setting.task.program.use_is_result[self.use])

    @property
    def used_later(self) -> bool:
        """Return whether the tensor has uses after the one that is decided next."""
        return self.setting.last_use[self.tensor] > self.use

    def size(self, tensor: int) -> int:
        return int(self.setting.task.program.tensor_bytes[tensor])

    def block(self, tensor: int) -> Block | None:
        """The tensor's latest block, whether or not it still holds the data."""
        return next((block for block in reversed(self.blocks) if block.tensor == tensor), None)

    def known_block(self, tensor: int) -> Block:
        """The same, where there must be one."""
        block = self.block(tensor)
        assert block is not None, f"tensor {tensor} has had a block"
        return block

    def pending(self) -> list[WriteBack]:
        """The write-backs under way, oldest first."""
        return [write for write in self.write_backs if write.end is None]

    def write_back(self, tensor: int) -> WriteBack | None:
        """The pending write-back of the tensor, if there is one."""
        return next((write for write in self.pending() if write.tensor == tensor), None)

    def protected(self, block: Block) -> bool:
        """Return whether a write-back reads the block, or it holds the only copy of data with uses left."""
        tensor = block.tensor
        if block is not self.block(tensor):
            return False
        needed = self.setting.last_use[tensor] >= self.use or tensor in self.setting.outputs
        return self.write_back(tensor) is not None or (self.valid_from[tensor] == inf and needed)

    def held_until(self, block: Block) -> float:
        return inf if self.protected(block) else block.committed_until

    def dead(self, block: Block) -> bool:
        """Another block has been where this one is, after what this one was held for, or is in its place."""
        return any(
            other is not block
            and other.offset < block.top
            and block.offset < other.top
            and (self.held_until(other) > self.held_until(block) or self.taken(block, other))
            for other in self.blocks
        )

    @staticmethod
    def taken(block: Block, by: Block) -> bool:
        """Return whether the other block is a result in the place of this one, which ends in the op that makes it."""
        return by.in_place and (by.offset, by.start) == (block.offset, block.committed_until)

    def intact(self, tensor: int) -> bool:
        block = self.block(tensor)
        return block is not None and not self.dead(block)

    def wanted(self, block: Block) -> bool:
        """Return whether the block still holds its data, which has undecided uses."""
        latest = block is self.block(block.tensor) and not self.dead(block)
        return latest and self.setting.last_use[block.tensor] >= self.use

    def live_until(self, block: Block) -> float:
        """The op in which its space is likely to become free: that of its tensor's last use, or its last."""
        if self.wanted(block):
            return self.setting.last_op(block.tensor)
        return min(self.held_until(block), self.setting.num_ops)

    def estimate(self) -> int:
        """Latency if all that is undecided stays in the backing memory; the tail counts once all is decided."""
        program = self.setting.task.program
        levels = self.levels + [BACKING] * (program.num_uses - self.use)
        return sum(self.setting.op(op, levels)[0] for op in range(program.num_ops)) + sum(self.stall) + self.tail
