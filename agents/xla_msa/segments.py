"""Placing one buffer, use by use: keep it in fast memory, copy it back, copy it in, or read the backing memory.

A segment is what lies between a use and the one before it, or the buffer's definition. Intervals of copies are
XLA's: after op s, before op e.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from agents.xla_msa.buffers import AT_END, BEFORE, Buffer
from agents.xla_msa.copies import CopyEngine, accepts, is_barred
from agents.xla_msa.costs import OpCosts
from agents.xla_msa.heap import Heap, fit_furthest
from agents.xla_msa.picker import IntervalPicker
from memplace_env.kernel import kernel
from memplace_env.workload.program import Ints


@dataclass
class Stay:
    """A buffer's stay in one block of fast memory.

    Attributes:
        block: its number in the heap.
        first, last: ops during which the block is held.
        uses: numbers of the uses it serves, among them the one that makes the buffer if it is made here.
        prefetch, eviction: intervals (s, e) of the copies that fill it and that copy it back.
    """

    block: int
    first: int
    last: int
    uses: list[int]
    prefetch: tuple[int, int] | None = None
    eviction: tuple[int, int] | None = None


class Memory(NamedTuple):
    """Fast memory and the copy engines with everything committed so far, and what decides about more.

    Attributes:
        heap: the blocks.
        prefetches, evictions: the engines.
        picker: of the copies' intervals.
        costs: of the ops.
        prefetch_ps, evict_ps: int64[K], what a copy of each tensor takes.
        picker_ps: int64[K], what the picker takes a copy of each tensor for.
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
        """Take back everything of a tensor."""
        self.heap.remove(tensor)
        self.prefetches.remove(tensor)
        self.evictions.remove(tensor)


class Attempt(NamedTuple):
    """How placing a buffer went: its stays, and whether there was no room for one; `undone` if it must go back
    to the backing memory altogether."""

    stays: list[Stay]
    short_of_memory: bool
    undone: bool = False


def place(memory: Memory, buffer: Buffer, forced: set[int], *, retry: int, last_retry: bool) -> Attempt:
    """Place all segments of a buffer.

    Args:
        memory: blocks and copies are added to it; an attempt that is `undone` leaves them for the caller to undo.
        buffer: the buffer.
        forced: uses that must be served by the backing memory.
        retry: number of the attempt, from 0: later ones give evictions more time.
        last_retry: whether it is the last, for which evictions need no bandwidth.
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
        live: the stay that serves the use before the segment, if one does.
        saved: op after which a prefetch may start, as the backing memory has the data; None if it has not.
        full: whether there was no room in the segment; it counts only if the use ends up in the backing memory.
    """

    memory: Memory
    buffer: Buffer
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
        """Serve use `index`; False if the data cannot get to the backing memory, where it has to be."""
        from_backing = self.buffer.uses[index] == AT_END or self.buffer.uses[index] in self.forced
        self.full = False
        if not from_backing and self._stay(index):
            return True
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
        """Keep the buffer in fast memory from the previous use, or the op that makes it, to this one."""
        made_here = index == 0 and self.buffer.result is not None and self.buffer.result not in self.forced
        if self.live is None and not made_here:
            return False
        previous = self.buffer.times[index - 1] if index else self.buffer.define
        use, heap = self.buffer.times[index], self.memory.heap
        if not self.memory.picker.may_stay(previous, use):
            return False
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
        """Copy the buffer back from the op that made it on, by `use` at the latest; returns the op before which it
        is done, None if that cannot be."""
        memory, tensor, start = self.memory, self.buffer.tensor, self.buffer.define
        wanted = memory.picker.eviction_end(start, use, memory.evict_ps[tensor], retry)
        end = max(stay.last, min(wanted, memory.heap.free_until(stay.block)))
        work = memory.evict_ps[tensor]
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
        """Copy the buffer in for a use."""
        memory, buffer, use = self.memory, self.buffer, self.buffer.times[index]
        tensor, number = buffer.tensor, buffer.uses[index]
        # A plan has one block of a tensor at a time, so a copy waits for the end of the stay before.
        earliest = max(saved, self.stays[-1].last) if self.stays else saved
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
        engine.add(start, use, work, tensor)
        block = heap.place(offset, buffer.size, start + 1, use, tensor)
        self._begin(Stay(block, start + 1, use, [], prefetch=(start, use)))
        self._serve(index)
        return True

    def _begin(self, stay: Stay) -> None:
        self.stays.append(stay)
        self.live = stay

    def _serve(self, index: int) -> None:
        """Let the present stay serve a use."""
        assert self.live is not None
        self.live.uses.append(self.buffer.uses[index])
        self.live.last = self.buffer.times[index]
        self.memory.heap.extend(self.live.block, self.live.last)

    def _reachable(self, index: int) -> Ints:
        """int64[n], this use and those after it that the buffer may wait for in fast memory."""
        times, last = self.buffer.times, index
        while last + 1 < len(times) and self.memory.picker.may_stay(times[last], times[last + 1]):
            last += 1
        return np.array(times[index : last + 1], dtype=np.int64)


@kernel
def first_start(starts, use, size, ends, work, blocks, base, limit, resource, copies, most, fifo):
    """The first start after which a copy finds bandwidth and a block to the use: (start, offset, short of memory).

    The offset is -1 if there is none. Where memory is short for one start, it is for every earlier one.
    """
    full = np.int64(-2)
    for start in starts:
        if start <= full or is_barred(copies, most, fifo, start, use):
            continue
        if not accepts(resource, copies, start, use, work):
            continue
        offset = fit_furthest(blocks, base, limit, size, start + 1, ends)
        if offset >= 0:
            return start, offset, False
        full = start
    return np.int64(-2), np.int64(-1), full > -2
