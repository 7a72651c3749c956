"""mallocGame as the design tells it, in plain Python: what the compiled rules are held equal to, move by move."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

import numpy as np

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from tests.references import reference_compiler
from tests.references.reference_position import BACKING, FAST, Block, Position, Setting, WriteBack

COPY, NO_COPY, DROP = 0, 1, 2


class CopyIn(NamedTuple):
    """Window of a copy for the next decision: first op, offset, and the op's wait."""

    start: int
    offset: int
    wait: int


class Room(NamedTuple):
    """Room for the next decision's result: offset, and number of the oldest write-backs to wait for."""

    offset: int
    write_backs: int
    wait: int
    in_place: bool


class Game(Position):
    """A game in progress and the moves that it allows.

    Example:
        >>> from memplace_env.placement.resolve_task import resolve_task
        >>> game = Game.begin(resolve_task("synthetic:chain?ops=4&accelerator=tpu-v4i", "tpu-v4i"))
        >>> game.legal(COPY)
        (False, 'op 0 is too early to have tensor 0 copied in')
        >>> gain = game.play(DROP)
    """

    @classmethod
    def begin(cls, task: Task) -> Game:
        """The game of a task on a chip with two memory levels, before its first decision."""
        valid_from = {k: 0 if producer < 0 else inf for k, producer in enumerate(task.program.producer.tolist())}
        game = cls(Setting(task), valid_from, stall=[0] * task.program.num_ops)
        game._finish_ops()
        return game

    # Room in fast memory.

    def fit(self, size: int, first: int, last: int) -> int | None:
        """Offset of a block that is held from op `first` to the current one, if there is room.

        Beside what is busy in those ops, cached blocks with later uses are spared if possible. It may be held until op
        `last`, so it lies below what any op from the first to that reserves. There is none where fast memory may not
        hold the tensor of the next decision.
        """
        if not self.setting.task.allowed[self.tensor, FAST]:
            return None
        busy = [block for block in self.blocks if self.held_until(block) >= first]
        cached = [block for block in self.blocks if self.held_until(block) < first and self.wanted(block)]
        ceiling = reference_compiler.ceiling_of(self.setting.task, FAST, first, last)
        ends = list(self._ends(busy + cached, size, ceiling)) or list(self._ends(busy, size, ceiling))
        return max(ends, key=lambda end: (end[1], -end[0]))[0] if ends else None

    def _ends(self, busy: list[Block], size: int, ceiling: int) -> Iterator[tuple[int, float]]:
        """(offset, op until which the neighbour is live) of a block at either end of each gap that is large enough."""
        as_ever = [reference_compiler.Block(FAST, block.offset, block.size, 0, 0) for block in busy]
        for low, room in reference_compiler.gaps(as_ever, ceiling, 0, 0):
            if room >= size:
                high = low + room
                below = [self.live_until(block) for block in busy if block.top == low]
                above = [self.live_until(block) for block in busy if block.offset == high]
                yield low, inf if low == 0 else max(below)
                yield high - size, inf if high == ceiling else max(above)

    def room(self, action: int) -> Room | None:
        """Return where NoCopy or Copy would make the next decision's result, if there is or will be room.

        It may be held for as long as it is sent back, and that may be to the end.
        """
        sent = action == COPY or self.tensor in self.setting.outputs
        last = self.setting.num_ops - 1 if sent else self.setting.last_op(self.tensor)
        waitable = [write for write in self.pending() if write.start <= self.op - 1]
        for count in range(len(waitable) + 1):
            ahead = self.fork()
            ahead._wait_for(count)
            given = ahead.given(last)
            offset = ahead.fit(self.size(self.tensor), self.op, last) if given is None else given
            if offset is not None:
                return Room(offset, count, sum(ahead.stall) - sum(self.stall), given is not None)
        return None

    def given(self, last: int) -> int | None:
        """Offset of an operand that ends with this op and may be overwritten by the next decision's result.

        The first one that lies in fast memory, on no way back, below what ops up to `last` reserve, and untaken.
        """
        program, op = self.setting.task.program, self.op
        if not self.setting.task.allowed[self.tensor, FAST]:
            return None
        ceiling = reference_compiler.ceiling_of(self.setting.task, FAST, op, last)
        for use, result in program.inplace.tolist():
            block = self.block(int(program.use_tensor[use]))
            if result != self.use or not block or block.top > ceiling:
                continue
            ends = self.setting.last_op(block.tensor) == op == self.held_until(block)
            if ends and not any(self.taken(block, by) for by in self.blocks):
                return block.offset
        return None

    # Time of the backing memory's port.

    def copy_in(self) -> CopyIn | None:
        """Return the copy of the next decision's operand: in time if possible, else with the least wait."""
        x, op = self.tensor, self.op
        earliest, size, demand = self._earliest_copy(), self.size(x), self.setting.demand(x, prefetch=True)
        last = self.setting.last_op(x)
        if demand == 0 or earliest > op - 1 or self.fit(size, op - 1, last) is None:
            return None
        first_pending = min((write.start for write in self.pending()), default=op)
        in_time = [s for s in range(earliest, op) if sum(self.free[s : min(op, first_pending)]) >= demand]
        if in_time:
            offset = self.fit(size, in_time[-1], last)
            if offset is not None:
                return CopyIn(in_time[-1], offset, 0)
        waits = {}
        for s in range(op - 1, earliest - 1, -1):
            if self.fit(size, s, last) is None:
                break
            waits[s] = max(0, demand - sum(self.free[s:op]))
            if waits[s] == 0:
                break
        start = min(waits, key=lambda s: (waits[s], -s))
        offset = self.fit(size, start, last)
        assert offset is not None, "it fits from there on"
        return CopyIn(start, offset, waits[start])

    def _earliest_copy(self) -> int:
        """First op in which the operand's data can leave the backing memory; its old block is no longer held then."""
        previous = self.block(self.tensor)
        after = 0 if previous is None else self.held_until(previous) + 1
        return int(min(max(self.valid_from[self.tensor], after), self.setting.num_ops))

    def _book(self, start: int, end: int, need: int) -> int:
        """Take free port time of ops start..end-1, the earliest first; returns what is lacking."""
        for during in range(start, end):
            taken = min(need, self.free[during])
            self.free[during] -= taken
            need -= taken
        return need

    def _end(self, write: WriteBack, op: int) -> None:
        write.end = op
        self.valid_from[write.tensor] = min(self.valid_from[write.tensor], op + 1)
        block = self.known_block(write.tensor)
        block.committed_until = max(block.committed_until, op)

    def _wait_for(self, count: int) -> None:
        """The current op waits for the oldest write-backs, so many of them."""
        for write in self.pending()[:count]:
            self.stall[self.op] += self._book(write.start, self.op, write.demand)
            self._end(write, self.op - 1)

    def _age(self, write: WriteBack) -> int:
        """Return the number of write-backs to wait for until this one has ended."""
        return self.pending().index(write) + 1

    def drop_wait(self) -> int | None:
        """Return how long the op would wait if its operand were read from the backing memory; None if it can't be."""
        if self.valid_from[self.tensor] <= self.op:
            return 0
        write = self.write_back(self.tensor)
        if write is None or write.start > self.op - 1:
            return None
        ahead = self.fork()
        ahead._wait_for(self._age(write))
        return sum(ahead.stall) - sum(self.stall)

    def wait(self, action: int) -> int:
        """Return how long the op would wait if a legal action were played."""
        if self.is_result:
            room = None if action == DROP else self.room(action)
            return room.wait if room else 0
        if action == DROP:
            return self.drop_wait() or 0
        copy_in = None if self.intact(self.tensor) else self.copy_in()
        return copy_in.wait if copy_in else 0

    # Moves.

    def legal(self, action: int) -> tuple[bool, str]:
        """Return whether the action is legal now, and the reason if not."""
        reason = "the game is over" if self.over else (self._refuse_result if self.is_result else self._refuse)(action)
        return not reason, reason

    def _refuse(self, action: int) -> str:
        """Why the operand cannot be served like this; empty if it can."""
        x, op = self.tensor, self.op
        backed, output, write = self.valid_from[x] <= op, x in self.setting.outputs, self.write_back(x)
        if action == DROP:
            if backed or self.drop_wait() is not None:
                return ""
            if write is not None:
                return f"the write-back of tensor {x} begins with op {op}"
            return f"tensor {x} is not in the backing memory at op {op}"
        if action == NO_COPY:
            if not self.intact(x):
                return f"tensor {x} has no block that still holds its data"
            if output and not self.used_later and not (backed or write):
                return f"graph output {x} would never reach the backing memory: this is its last use"
            return ""
        if self.intact(x):
            if backed:
                return f"tensor {x} is in fast memory and in the backing memory already"
            if write:
                return f"tensor {x} is being written back already"
            if not self.used_later and not output:
                return f"no use of tensor {x} follows"
            usable = reference_compiler.ceiling_of(self.setting.task, FAST, op, self.setting.num_ops - 1)
            in_the_way = f"it may take to the end to send tensor {x} back, and a later op reserves bytes where it lies"
            return "" if self.known_block(x).top <= usable else in_the_way
        if self.setting.demand(x, prefetch=True) == 0:
            return f"a copy of tensor {x} takes no time, which is no copy"
        if self._earliest_copy() > op - 1:
            return f"op {op} is too early to have tensor {x} copied in"
        no_room = f"no gap of {self.size(x)} bytes is free during op {op - 1} and op {op}"
        return "" if self.fit(self.size(x), op - 1, self.setting.last_op(x)) is not None else no_room

    def _refuse_result(self, action: int) -> str:
        """Why the result cannot be made like this; empty if it can."""
        x, output = self.tensor, self.tensor in self.setting.outputs
        if action == DROP:
            return ""
        no_room = f"no gap of {self.size(x)} bytes is free at op {self.op}, whatever it waits for"
        if self.room(NO_COPY) is None:
            return no_room
        if action == NO_COPY and output and not self.used_later:
            return f"graph output {x} would never reach the backing memory: it has no later use"
        if action == COPY and not output and not self.used_later:
            return f"no use of tensor {x} follows"
        return "" if self.room(action) is not None else no_room

    def play(self, action: int) -> int:
        """Play a legal action; returns by how many picoseconds it lowers the estimate."""
        legal, reason = self.legal(action)
        if not legal:
            raise ValueError(reason)
        before = self.estimate()
        (self._make if self.is_result else self._read)(action)
        self.levels.append(BACKING if action == DROP else FAST)
        self._finish_ops()
        return before - self.estimate()

    def _make(self, action: int) -> None:
        if action == DROP:
            self.valid_from[self.tensor] = self.op + 1
            return
        room = self.room(action)
        assert room is not None, "the action is legal"
        self._wait_for(room.write_backs)
        self._place(room.offset, self.op, copied=False, in_place=room.in_place)
        if action == COPY:
            self._send()

    def _read(self, action: int) -> None:
        x, op = self.tensor, self.op
        if action == DROP:
            write = self.write_back(x)
            if self.valid_from[x] > op and write is not None:
                self._wait_for(self._age(write))
        elif self.intact(x):
            self.known_block(x).committed_until = op
            if action == COPY:
                self._send()
        else:
            copy_in = self.copy_in()
            assert copy_in is not None, "the action is legal"
            self.stall[op] += copy_in.wait
            lacking = self._book(copy_in.start, op, self.setting.demand(x, prefetch=True))
            assert lacking == copy_in.wait
            self._place(copy_in.offset, copy_in.start, copied=True)

    def _place(self, offset: int, start: int, *, copied: bool, in_place: bool = False) -> None:
        x, op = self.tensor, self.op
        self.blocks.append(Block(x, offset, self.size(x), start, op, op, copied=copied, in_place=in_place))

    def _send(self) -> None:
        x = self.tensor
        self.write_backs.append(WriteBack(x, self.op + 1, self.setting.demand(x, prefetch=False)))

    def _finish_ops(self) -> None:
        """Every op without undecided uses becomes final, and write-backs end, first in first out."""
        program = self.setting.task.program
        while self.op < program.num_ops and program.use_ptr[self.op + 1] <= self.use:
            op = self.op
            self.free.append(self.setting.op(op, self.levels)[1])
            for write in self.pending():
                if write.start > op or sum(self.free[write.start :]) < write.demand:
                    break
                self._book(write.start, op + 1, write.demand)
                self._end(write, op)
            self.op += 1
            if self.op == program.num_ops:
                self.tail = sum(self._book(write.start, self.op, write.demand) for write in self.pending())

    # Plans.

    def finish(self) -> None:
        """Play what needs fast memory least and waits for nothing: Drop, else NoCopy, else Copy."""
        while not self.over:
            legal = [action for action in (DROP, NO_COPY, COPY) if self.legal(action)[0]]
            self.play(next(action for action in legal if action != DROP or self.wait(DROP) == 0))

    def plan(self) -> MemoryPlan:
        """The game as a plan, on a fork finished if need be.

        Blocks come in the order placed, prefetches likewise, write-backs by tensor.
        """
        game = self.fork()
        game.finish()
        task, ops = game.setting.task, game.setting.num_ops
        blocks = [
            (block.tensor, FAST, block.offset, block.start, min(game.held_until(block), ops)) for block in game.blocks
        ]
        prefetches = [(b.tensor, BACKING, FAST, b.start, b.made - 1) for b in game.blocks if b.copied]
        writes = sorted(
            (write.tensor, FAST, BACKING, write.start, ops if write.end is None else write.end)
            for write in game.write_backs
        )
        levels, copies = np.array(game.levels, dtype=np.int64), np.array(prefetches + writes, dtype=np.int64)
        return task.make_plan(levels, np.array(blocks, dtype=np.int64), copies)
