"""mallocGame as the design tells it, in plain Python: what the compiled rules are held equal to, move by move."""

from __future__ import annotations

from math import inf

import numpy as np

from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.testing import reference_compiler
from memplace_env.testing.reference_position import BACKING, FAST, Block, Position, Setting, WriteBack

COPY, NO_COPY, DROP = 0, 1, 2


class Game(Position):
    """A game in progress and the moves that it allows.

    Example:
        >>> from memplace_env.resolve import resolve_task
        >>> game = Game.begin(resolve_task("synthetic:chain?ops=4&accelerator=tpu-v4i", "tpu-v4i"))
        >>> game.legal(COPY)
        (False, 'no window before op 0 has the port time to copy tensor 0 in')
        >>> gain = game.play(DROP)
    """

    @classmethod
    def begin(cls, task: Task) -> Game:
        """The game of a task on a chip with two memory levels, before its first decision."""
        valid_from = {k: 0 if producer < 0 else inf for k, producer in enumerate(task.program.producer.tolist())}
        game = cls(Setting(task), valid_from)
        game._finish_ops()
        return game

    def fit(self, size: int, first: int, last: int) -> int | None:
        """Offset of a block that is held during ops first..last: smallest gap, then lowest offset.

        It may be held for longer, so it lies below what any op from the first on reserves.
        """
        busy = [
            reference_compiler.Block(FAST, block.offset, block.size, 0, 0)
            for block in self.blocks
            if block.start <= last and self.held_until(block) >= first
        ]
        ceiling = reference_compiler.ceiling_of(self.setting.task, FAST, first, self.setting.task.program.num_ops - 1)
        gaps = reference_compiler.gaps(busy, ceiling, 0, 0)
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
            start = self.window()
            assert start is not None, "the copy is legal"
            self._prefetch(start)
            action = NO_COPY  # The copy is done; nothing is to be written back.
        else:
            self.known_block(x).hold = op
        if action == COPY:
            self.write_backs.append(WriteBack(x, op + 1, self.setting.demand(x, prefetch=False)))
        self.levels.append(BACKING if action == DROP else FAST)
        self._finish_ops()
        return before - self.estimate()

    def _add(self, start: int, *, copied: bool) -> None:
        x, offset = self.tensor, self.place()
        assert offset is not None, "there is a gap"
        self.blocks.append(Block(x, offset, self.size(x), start, made=self.op, hold=self.op, copied=copied))

    def _prefetch(self, start: int) -> None:
        self._add(start, copied=True)
        need = self.setting.demand(self.tensor, prefetch=True)
        for during in range(start, self.op):
            taken = min(need, self.free[during])
            self.free[during] -= taken
            need -= taken
        assert need == 0, "the window suffices"

    def _finish_ops(self) -> None:
        """Every op without undecided uses becomes final: its leftover goes to write-backs, first in first out."""
        program = self.setting.task.program
        while self.op < program.num_ops and program.use_ptr[self.op + 1] <= self.use:
            op = self.op
            _, leftover = self.setting.op(op, self.levels)
            for write in self.write_backs:
                if write.start > op or write.end is not None:
                    continue
                done = min(leftover, write.left)
                leftover -= done
                write.left -= done
                if write.left > 0:
                    break
                write.end = op
                self.valid_from[write.tensor] = op + 1
                block = self.known_block(write.tensor)
                block.hold = max(block.hold, op)
            self.free.append(leftover)
            self.op += 1

    def plan(self) -> MemoryPlan:
        """The finished game as a plan: blocks in the order placed, prefetches likewise, write-backs by tensor."""
        task, ops = self.setting.task, self.setting.task.program.num_ops
        blocks = [
            (block.tensor, FAST, block.offset, block.start, min(self.held_until(block), ops)) for block in self.blocks
        ]
        prefetches = [(b.tensor, BACKING, FAST, b.start, b.made - 1) for b in self.blocks if b.copied]
        writes = sorted(
            (write.tensor, FAST, BACKING, write.start, ops if write.end is None else write.end)
            for write in self.write_backs
        )
        levels, copies = np.array(self.levels, dtype=np.int64), np.array(prefetches + writes, dtype=np.int64)
        return MemoryPlan.of(task, levels, np.array(blocks, dtype=np.int64), copies)
