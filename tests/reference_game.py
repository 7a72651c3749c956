"""mallocGame as the design tells it, in plain Python: what the compiled rules are held equal to, decision by decision.

Nothing here is derived that can be looked up: whether a block still holds its data, whether it is protected, what
the game would take at best as things stand are all worked out from the list of blocks whenever someone asks.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.plan import MemoryPlan
from memplace_env.workload.program import Program, TensorKind
from tests import reference

COPY, NO_COPY, DROP = 0, 1, 2
FAST, BACKING = 0, 1


@dataclass
class Block:
    """`made` is the op that the block was placed for, `hold` the last op that it is committed to.

    `copied` says that a prefetch over start..made-1 fills it.
    """

    tensor: int
    offset: int
    size: int
    start: int
    made: int
    hold: int
    copied: bool


@dataclass
class WriteBack:
    """`left` is the time it still needs; `end` the op it drained in."""

    tensor: int
    start: int
    left: int
    end: int | None = None


@dataclass
class Setting:
    """A program on a machine; what never changes during a game. `known` remembers times worked out before."""

    program: Program
    chip: Accelerator
    known: dict[tuple, tuple[int, int]] = field(default_factory=dict)

    @cached_property
    def last_use(self) -> dict[int, int]:
        return {tensor: use for use, tensor in enumerate(self.program.use_tensor.tolist())}

    @cached_property
    def outputs(self) -> set[int]:
        return set(np.flatnonzero(self.program.tensor_kind == TensorKind.OUTPUT).tolist())

    def op(self, op: int, levels: list[int]) -> tuple[int, int]:
        """(time of the op, its leftover) with the uses of the program at such levels."""
        use_level = {use: levels[use] for use in reference.uses_of(self.program, op)}
        key = (op, *use_level.values())
        if key not in self.known:
            ports = reference.op_ports(self.program, self.chip, op, use_level)
            time = reference.op_time(self.program, self.chip, op, ports)
            self.known[key] = time, time - ports[BACKING]
        return self.known[key]

    def demand(self, tensor: int, *, prefetch: bool) -> int:
        return reference.copy_ps(self.program, self.chip, tensor, prefetch=prefetch)


@dataclass
class Game:
    """A game in progress. `levels` are the decisions so far; ops before `op` are final, with `free` port time left."""

    setting: Setting
    valid_from: dict[int, float]
    levels: list[int] = field(default_factory=list)
    op: int = 0
    free: list[int] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    write_backs: list[WriteBack] = field(default_factory=list)

    @classmethod
    def begin(cls, program: Program, chip: Accelerator) -> Game:
        valid_from = {k: 0 if producer < 0 else inf for k, producer in enumerate(program.producer.tolist())}
        game = cls(Setting(program, chip), valid_from)
        game._finish_ops()
        return game

    def fork(self) -> Game:
        """The same game, to be played on apart from this one."""
        twin = copy(self)
        twin.valid_from, twin.levels, twin.free = dict(self.valid_from), list(self.levels), list(self.free)
        twin.blocks = [replace(block) for block in self.blocks]
        twin.write_backs = [replace(write) for write in self.write_backs]
        return twin

    # What the state means.

    @property
    def use(self) -> int:
        """The next decision; the number of uses once the game is over."""
        return len(self.levels)

    @property
    def over(self) -> bool:
        return self.use == self.setting.program.num_uses

    @property
    def tensor(self) -> int:
        """Whose use is decided next."""
        return int(self.setting.program.use_tensor[self.use])

    @property
    def is_result(self) -> bool:
        return bool(self.setting.program.use_is_result[self.use])

    @property
    def used_later(self) -> bool:
        """Whether the tensor has uses after the one that is decided next."""
        return self.setting.last_use[self.tensor] > self.use

    def size(self, tensor: int) -> int:
        return int(self.setting.program.tensor_bytes[tensor])

    def block(self, tensor: int) -> Block | None:
        """The tensor's latest block, whether or not it still holds the data."""
        return next((block for block in reversed(self.blocks) if block.tensor == tensor), None)

    def pending(self, tensor: int) -> bool:
        return any(write.tensor == tensor and write.left > 0 for write in self.write_backs)

    def protected(self, block: Block) -> bool:
        """A write-back reads it, or it is the only place of data that somebody still needs."""
        tensor = block.tensor
        if block is not self.block(tensor):
            return False
        needed = self.setting.last_use[tensor] >= self.use or tensor in self.setting.outputs
        return self.pending(tensor) or (self.valid_from[tensor] == inf and needed)

    def held_until(self, block: Block) -> float:
        return inf if self.protected(block) else block.hold

    def dead(self, block: Block) -> bool:
        """Another block has been where this one is, after what this one was held for."""
        return any(
            other is not block
            and other.offset < block.offset + block.size
            and block.offset < other.offset + other.size
            and self.held_until(other) > self.held_until(block)
            for other in self.blocks
        )

    def intact(self, tensor: int) -> bool:
        block = self.block(tensor)
        return block is not None and not self.dead(block)

    def estimate(self) -> int:
        """Latency if all that is undecided stays in the backing memory; write-backs count once all is decided."""
        program = self.setting.program
        levels = self.levels + [BACKING] * (program.num_uses - self.use)
        op_times = [self.setting.op(op, levels)[0] for op in range(program.num_ops)]
        return sum(op_times) + (sum(write.left for write in self.write_backs) if self.over else 0)

    # The rules.

    def fit(self, size: int, first: int, last: int) -> int | None:
        """Offset of a block that is held during ops first..last: smallest gap, then lowest offset."""
        busy = [
            reference.Block(FAST, block.offset, block.size, 0, 0)
            for block in self.blocks
            if block.start <= last and self.held_until(block) >= first
        ]
        gaps = reference.gaps(busy, self.setting.chip.levels[FAST].capacity_bytes, 0, 0)
        rooms = [(room, offset) for offset, room in gaps if room >= size]
        return min(rooms)[1] if rooms else None

    def window(self) -> int | None:
        """The latest op at which a prefetch for the next decision can start and be done in time."""
        earliest, previous = self.valid_from[self.tensor], self.block(self.tensor)
        if previous is not None:
            earliest = max(earliest, self.held_until(previous) + 1)
        demand = self.setting.demand(self.tensor, prefetch=True)
        starts = [s for s in range(self.op) if s >= earliest and sum(self.free[s : self.op]) >= demand]
        return max(starts, default=None)

    def place(self) -> int | None:
        """Offset of the block that the next decision would place."""
        if self.is_result:
            return self.fit(self.size(self.tensor), self.op, self.op)
        start = self.window()
        return None if start is None else self.fit(self.size(self.tensor), start, self.op)

    def legal(self, action: int) -> tuple[bool, str]:
        """Whether the action may be played now, and if not, why."""
        reason = "the game is over" if self.over else (self._refuse_result if self.is_result else self._refuse)(action)
        return not reason, reason

    def _refuse(self, action: int) -> str:
        """Why the operand cannot be served like this; empty if it can."""
        x, op = self.tensor, self.op
        backed, output = self.valid_from[x] <= op, x in self.setting.outputs
        if action == DROP:
            return "" if backed else f"tensor {x} is not in the backing memory at op {op}"
        if action == NO_COPY:
            if not self.intact(x):
                return f"tensor {x} has no block that still holds its data"
            if output and not self.used_later and not (backed or self.pending(x)):
                return f"graph output {x} would never reach the backing memory: this is its last use"
            return ""
        if self.intact(x):
            if backed:
                return f"tensor {x} is in fast memory and in the backing memory already"
            if self.pending(x):
                return f"tensor {x} is being written back already"
            return "" if self.used_later or output else f"nobody needs tensor {x} after this"
        if self.window() is None:
            return f"no window before op {op} has the port time to copy tensor {x} in"
        return "" if self.place() is not None else f"no gap of {self.size(x)} bytes is free while tensor {x} comes in"

    def _refuse_result(self, action: int) -> str:
        """Why the result cannot be made like this; empty if it can."""
        x, output = self.tensor, self.tensor in self.setting.outputs
        if action == DROP:
            return ""
        if self.place() is None:
            return f"no gap of {self.size(x)} bytes is free at op {self.op}"
        if action == NO_COPY and output and not self.used_later:
            return f"graph output {x} would never reach the backing memory: nobody reads it"
        if action == COPY and not output and not self.used_later:
            return f"nobody needs tensor {x} after this"
        return ""

    def play(self, action: int) -> int:
        """Play a legal action; returns by how many picoseconds it lowers the estimate."""
        legal, reason = self.legal(action)
        if not legal:
            raise ValueError(reason)
        before, x, op = self.estimate(), self.tensor, self.op
        if action == DROP:
            if self.is_result:
                self.valid_from[x] = op + 1
        elif self.is_result:
            self._add(op, copied=False)
        elif not self.intact(x):
            self._prefetch(self.window())
            action = NO_COPY  # The copy is done; nothing is to be written back.
        else:
            self.block(x).hold = op
        if action == COPY:
            self.write_backs.append(WriteBack(x, op + 1, self.setting.demand(x, prefetch=False)))
        self.levels.append(BACKING if action == DROP else FAST)
        self._finish_ops()
        return before - self.estimate()

    def _add(self, start: int, *, copied: bool) -> None:
        x, offset = self.tensor, self.place()
        self.blocks.append(Block(x, offset, self.size(x), start, made=self.op, hold=self.op, copied=copied))

    def _prefetch(self, start: int) -> None:
        self._add(start, copied=True)
        need = self.setting.demand(self.tensor, prefetch=True)
        for during in range(start, self.op):
            taken = min(need, self.free[during])
            self.free[during] -= taken
            need -= taken
        assert need == 0

    def _finish_ops(self) -> None:
        """Every op without undecided uses becomes final: its leftover goes to write-backs, first in first out."""
        program = self.setting.program
        while self.op < program.num_ops and program.use_ptr[self.op + 1] <= self.use:
            op = self.op
            _, leftover = self.setting.op(op, self.levels)
            for write in self.write_backs:
                if write.start <= op and write.left > 0:
                    done = min(leftover, write.left)
                    leftover -= done
                    write.left -= done
                    if write.left == 0:
                        write.end = op
                        self.valid_from[write.tensor] = op + 1
                        block = self.block(write.tensor)
                        block.hold = max(block.hold, op)
            self.free.append(leftover)
            self.op += 1

    def plan(self) -> MemoryPlan:
        """The finished game as a plan: blocks in the order placed, prefetches likewise, write-backs by tensor."""
        program, chip = self.setting.program, self.setting.chip
        blocks = [
            (block.tensor, FAST, block.offset, block.start, min(self.held_until(block), program.num_ops))
            for block in self.blocks
        ]
        prefetches = [(b.tensor, BACKING, FAST, b.start, b.made - 1) for b in self.blocks if b.copied]
        writes = sorted(
            (write.tensor, FAST, BACKING, write.start, program.num_ops if write.end is None else write.end)
            for write in self.write_backs
        )
        return MemoryPlan.of(
            program,
            chip,
            np.array(self.levels, dtype=np.int64),
            np.array(blocks, dtype=np.int64).reshape(-1, 5),
            np.array(prefetches + writes, dtype=np.int64).reshape(-1, 5),
        )
