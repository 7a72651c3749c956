"""Placement of one buffer, use by use: keep it in fast memory, evict it, prefetch it, or read the backing memory.

A segment lies between a use and the one before it, or the buffer's definition. Intervals (s, e) of copies are XLA's:
after op s, before op e.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from memplace_agents.xla_msa.buffers import AT_END, BEFORE, XlaBuffer
from memplace_agents.xla_msa.copies import CopyEngine, accepts, is_barred
from memplace_agents.xla_msa.heap import Heap, fit_furthest
from memplace_agents.xla_msa.picker import IntervalPicker
from memplace_agents.xla_msa.xla_costs import OpCosts
from memplace_env._lib.kernel import kernel
from memplace_env.program.program import Ints


@dataclass
class Stay:
    """The time that a buffer spends in one block of fast memory.

    Attributes:
        block: number of the block in the heap.
        first, last: ops during which the block is held.
        uses: numbers of the uses that it serves, among them the one that makes the buffer if it is made here.
        prefetch, eviction: intervals (s, e) of the copies to and from the block.
    """

    block: int
    first: int
    last: int
    uses: list[int]
    prefetch: tuple[int, int] | None = None
    eviction: tuple[int, int] | None = None


class Memory(NamedTuple):
    """Fast memory and the copy engines with everything committed so far, and the costs that decide about more.

    Attributes:
        heap: the blocks.
        prefetches, evictions: the engines.
        picker: chooses the copies' intervals.
        costs: op times in ps.
        prefetch_ps, evict_ps: int64[K], duration of a copy of each tensor.
        picker_ps: int64[K], duration of a prefetch of each tensor that the picker assumes.
    """

    heap: Heap
    prefetches: CopyEngine
    evictions: CopyEngine
    picker: IntervalPicker
    costs: OpCosts
    prefetch_ps: Ints
    evict_ps: Ints
    picker_ps: Ints

    def undo(self, tensor: int) -> None:
        """Remove all blocks and copies of a tensor."""
        self.heap.remove(tensor)
        self.prefetches.remove(tensor)
        self.evictions.remove(tensor)


class Attempt(NamedTuple):
    """Result of placing a buffer.

    Attributes:
        stays: its times in fast memory.
        short_of_memory: True if a use went to the backing memory because there was no room.
        undone: True if the attempt failed, so that `stays` have to be undone.
    """

    stays: list[Stay]
    short_of_memory: bool
    undone: bool = False


def place(memory: Memory, buffer: XlaBuffer, forced: set[int], *, retry: int, last_retry: bool) -> Attempt:
    """Place all segments of a buffer.

    Args:
        memory: gets the blocks and copies; after an attempt that is `undone` the caller removes them.
        buffer: the buffer.
        forced: uses that must be served by the backing memory.
        retry: number of the attempt, from 0; later ones give evictions more time.
        last_retry: True for the last attempt, in which evictions need no bandwidth.
    """
    attempt = _Placing(memory, buffer, forced)
    for index in range(len(buffer.times)):
        if not attempt.segment(index, retry, last_retry):
            return Attempt(attempt.stays, attempt.short_of_memory, undone=True)
    return Attempt(attempt.stays, attempt.short_of_memory)


@dataclass
class _Placing:
    """State of `place`.

    Attributes:
        live: stay that serves the use before the segment, None if there is none.
        saved: op after which a prefetch may start, as the backing memory has the data then; None if it has not.
        full: True if there was no room in the segment; counts only if the use ends up in the backing memory.
    """

    memory: Memory
    buffer: XlaBuffer
    forced: set[int]
    stays: list[Stay] = field(default_factory=list)
    live: Stay | None = None
    saved: int | None = None
    full: bool = False
    short_of_memory: bool = False

    def __post_init__(self) -> None:
        if self.buffer.define == BEFORE:
            self.saved = BEFORE

    def segment(self, index: int, retry: int, last_retry: bool) -> bool:
        """Serve use `index`; return False if the data cannot get to the backing memory, where it has to be."""
        from_backing = self.buffer.uses[index] == AT_END or self.buffer.uses[index] in self.forced
        self.full = False
        if not from_backing and self._stay(index):
            return True
        # The use needs the data in the backing memory, to read it there or to copy it in.
        if self.saved is None:
            if self.live is None:
                self.saved = self.buffer.define
            else:
                self.saved = self._evict(self.live, self.buffer.times[index], retry, last_retry)
            if self.saved is None:
                return False
        if from_backing or not self._prefetch(index, self.saved):
            self.live = None
            self.short_of_memory |= self.full
        return True

    def _stay(self, index: int) -> bool:
        """Keep the buffer in fast memory since the previous use, or its producer; return whether that is possible."""
        made_here = index == 0 and self.buffer.result is not None and self.buffer.result not in self.forced
        if self.live is None and not made_here:
            return False
        # Before the first use a buffer can only wait where it was made.
        previous = self.buffer.times[index - 1] if index else self.buffer.define
        use, heap = self.buffer.times[index], self.memory.heap
        if not self.memory.picker.may_stay(previous, use):
            return False
        # A new block gets an address that reaches as many later uses as it can, so that later segments only extend it;
        # an existing block has its address, which has to be free until the use.
        if self.live is None:
            offset = heap.fit(self.buffer.size, self.buffer.define, self._reachable(index))
            if offset < 0:
                self.full = True
                return False
            block = heap.place(offset, self.buffer.size, self.buffer.define, use, self.buffer.tensor)
            assert self.buffer.result is not None
            self._begin(Stay(block, self.buffer.define, use, [self.buffer.result]))
        elif heap.free_until(self.live.block) < use:
            self.full = True
            return False
        self._serve(index)
        return True

    def _evict(self, stay: Stay, use: int, retry: int, last_retry: bool) -> int | None:
        """Copy the buffer back from its producer on; return the op before which it is done, `use` at the latest.

        None if that is not possible.
        """
        memory, tensor, start = self.memory, self.buffer.tensor, self.buffer.define
        # The block is held while it is copied: at most as long as its address is free, at least until its last use.
        wanted = memory.picker.eviction_end(start, use, memory.evict_ps[tensor], retry)
        end = max(stay.last, min(wanted, memory.heap.free_until(stay.block)))
        work = memory.evict_ps[tensor]
        # The last attempt evicts even without bandwidth, as a copy without work; the simulator then reports the stall.
        if not memory.evictions.accepts(start, end, work):
            work = 0
            if not last_retry:
                return None
        if memory.evictions.is_barred(start, end):
            return None
        memory.evictions.add(start, end, work, tensor)
        memory.heap.extend(stay.block, end)
        stay.last, stay.eviction = end, (start, end)
        return end

    def _prefetch(self, index: int, saved: int) -> bool:
        """Copy the buffer in for a use; return whether there was a time and a block for it."""
        memory, buffer, use = self.memory, self.buffer, self.buffer.times[index]
        tensor, number = buffer.tensor, buffer.uses[index]
        # A plan has one block of a tensor at a time, so a copy waits for the end of the stay before.
        earliest = max(saved, self.stays[-1].last) if self.stays else saved
        # A block must begin after the last op that is full, so no copy may start before that.
        full = memory.heap.full_at(buffer.size, use)
        gain = memory.costs.elapsed_ps[use] - memory.costs.alone_elapsed_ps[number]
        window = memory.picker.window(max(earliest, full), use, memory.picker_ps[tensor], gain)
        reachable = self._reachable(index)
        if full == use or (window and memory.heap.fit(buffer.size, window.latest + 1, reachable) < 0):
            self.full = True
            return False
        if window is None:
            return False
        engine, heap, work = memory.prefetches, memory.heap, memory.prefetch_ps[tensor]
        start, offset, short = first_start(
            window.starts, use, buffer.size, reachable, work, heap.rows, heap.base, heap.limit,
            engine.resource, engine.rows, engine.most, engine.fifo,
        )  # fmt: skip
        if offset < 0:
            self.full |= short
            return False
        # The copy runs strictly between `start` and the use; the block is held from its first op on.
        engine.add(start, use, work, tensor)
        block = heap.place(offset, buffer.size, start + 1, use, tensor)
        self._begin(Stay(block, start + 1, use, [], prefetch=(start, use)))
        self._serve(index)
        return True

    def _begin(self, stay: Stay) -> None:
        self.stays.append(stay)
        self.live = stay

    def _serve(self, index: int) -> None:
        """Serve a use from the present stay, and extend its block to it."""
        assert self.live is not None
        self.live.uses.append(self.buffer.uses[index])
        self.live.last = self.buffer.times[index]
        self.memory.heap.extend(self.live.block, self.live.last)

    def _reachable(self, index: int) -> Ints:
        """Return ops of this use and of the later ones that the buffer may wait for in fast memory, int64[n]."""
        times, last = self.buffer.times, index
        while last + 1 < len(times) and self.memory.picker.may_stay(times[last], times[last + 1]):
            last += 1
        return np.array(times[index : last + 1], dtype=np.int64)


@kernel
def first_start(starts, use, size, ends, work, blocks, base, limit, resource, copies, most, fifo):
    """Return the first start with bandwidth and a block to the use, as (start, offset, short of memory).

    The offset is -1 if there is none. `starts` are in the order of `picker.try_order`.
    """
    # A block that begins earlier contains one that begins later, so where memory is short for one start it is for every
    # earlier one; `full` is the latest start found short. Starts are at least -1, so -2 stands for none.
    full = np.int64(-2)
    for start in starts:
        if start <= full or is_barred(copies, most, fifo, start, use):
            continue
        if not accepts(resource, copies, start, use, work):
            continue
        offset = fit_furthest(blocks, base, limit, size, start + 1, ends)
        if offset >= 0:
            return start, offset, False
        # Greater than the value before, as only later starts got here.
        full = start
    return np.int64(-2), np.int64(-1), full > -2
