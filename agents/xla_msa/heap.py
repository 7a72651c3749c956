"""Addresses in fast memory: XLA's best-fit heap, and the repacker that chooses all of them anew.

A block holds its addresses over a closed interval of ops. Free space for an interval is what no block that meets it
in time covers; the smallest gap that fits is taken, the lowest among equals, and the endless space above the blocks
only if no gap fits. What an op reserves for itself is a block at the end of memory that stays where it is.
"""

from __future__ import annotations

import numpy as np

from memplace_env.kernel import kernel
from memplace_env.plan.gaps import ENDLESS, narrower_gap
from memplace_env.workload.program import Ints

OFFSET, TOP, FIRST, LAST, BLOCK, MARK = range(6)
RESERVED = -1
"""Mark of what ops reserve; no tensor has it."""


class Heap:
    """The blocks of fast memory.

    Attributes:
        base, limit: lowest byte that may be used, and the byte past the highest.
        rows: int64[n, 6], offset, end address, first and last op, number and mark of the blocks, ordered by offset.

    Args:
        base, limit: see above.
        reserved: int64[T], bytes below the limit that each op keeps for itself; None if none does.
    """

    def __init__(self, base: int, limit: int, reserved: Ints | None = None) -> None:
        self.base = base
        self.limit = limit
        self.rows: Ints = np.empty((0, 6), dtype=np.int64) if reserved is None else _kept_by_ops(base, limit, reserved)
        self._blocks = 0

    def fit(self, size: int, first: int, ends: Ints) -> int:
        """Offset of a gap from op `first` to the furthest of the rising `ends` that has one, -1 if none has."""
        return int(fit_furthest(self.rows, self.base, self.limit, size, first, ends))

    def place(self, offset: int, size: int, first: int, last: int, mark: int) -> int:
        """Add a block and return its number; `mark` is for `remove`."""
        self._blocks += 1
        where = int(np.searchsorted(self.rows[:, OFFSET], offset))
        self.rows = np.insert(self.rows, where, [offset, offset + size, first, last, self._blocks, mark], axis=0)
        return self._blocks

    def free_until(self, block: int) -> int:
        """Last op to which a block can be extended."""
        return int(free_until(self.rows, block))

    def extend(self, block: int, last: int) -> None:
        """Let a block end later."""
        self.rows[self.rows[:, BLOCK] == block, LAST] = last

    def offset(self, block: int) -> int:
        """Where a block is now."""
        return int(self.rows[self.rows[:, BLOCK] == block, OFFSET].item())

    def full_at(self, size: int, op: int) -> int:
        """Latest op up to `op` in which fewer than `size` bytes are free, -1 if there is none."""
        return int(full_at(self.rows, self.limit - self.base, size, op))

    def remove(self, mark: int) -> None:
        """Forget the blocks with this mark."""
        self.rows = self.rows[self.rows[:, MARK] != mark]

    def repack(self) -> bool:
        """Choose all addresses anew, longest-lived blocks first, then larger ones; False if that does not fit."""
        kept = self.rows[:, MARK] == RESERVED
        rows = self.rows[~kept]
        lasts = rows[:, LAST] - rows[:, FIRST]
        order = np.lexsort((rows[:, BLOCK], rows[:, OFFSET] - rows[:, TOP], -lasts))
        packed = pack(rows[order], self.rows[kept], self.base, self.limit)
        if len(packed) == len(self.rows):
            self.rows = packed
            return True
        return False


def _kept_by_ops(base: int, limit: int, reserved: Ints) -> Ints:
    """Rows of a heap that hold nothing else: a block for each run of ops that reserve equally much."""
    first = np.flatnonzero(np.diff(reserved, prepend=-1))
    last = np.append(first, len(reserved))[1:] - 1
    low = np.maximum(limit - reserved[first], base)
    rows = np.column_stack(
        [low, np.full_like(low, limit), first, last, np.zeros_like(low), np.full_like(low, RESERVED)]
    )
    return rows[low < limit][np.argsort(low[low < limit], kind="stable")]


@kernel
def best_fit(rows, base, limit, size, first, last):
    """Offset of the gap for an interval, or -1."""
    best, best_size, cursor = np.int64(-1), ENDLESS, np.int64(base)
    for index in range(len(rows)):
        if rows[index, FIRST] > last or rows[index, LAST] < first:
            continue
        best, best_size = narrower_gap(best, best_size, cursor, rows[index, OFFSET] - cursor, size)
        cursor = max(cursor, rows[index, TOP])
    if best < 0 and cursor + size <= limit:
        best = cursor
    return best


@kernel
def fit_furthest(rows, base, limit, size, first, ends):
    """See `Heap.fit`; a gap for an interval is one for every shorter interval, so halving finds the furthest."""
    best = best_fit(rows, base, limit, size, first, ends[0])
    low, high = 0, len(ends) - 1
    while best >= 0 and low < high:
        middle = (low + high + 1) // 2
        offset = best_fit(rows, base, limit, size, first, ends[middle])
        if offset >= 0:
            best, low = offset, middle
        else:
            high = middle - 1
    return best


@kernel
def free_until(rows, block):
    """See `Heap.free_until`."""
    mine = 0
    while rows[mine, BLOCK] != block:
        mine += 1
    until = ENDLESS
    for index in range(len(rows)):
        meets = rows[index, OFFSET] < rows[mine, TOP] and rows[index, TOP] > rows[mine, OFFSET]
        if meets and rows[index, FIRST] > rows[mine, LAST]:
            until = min(until, rows[index, FIRST] - 1)
    return until


@kernel
def full_at(rows, capacity, size, op):
    """See `Heap.full_at`."""
    change = np.zeros(op + 2, dtype=np.int64)
    for index in range(len(rows)):
        if rows[index, FIRST] <= op:
            bytes_held = rows[index, TOP] - rows[index, OFFSET]
            change[rows[index, FIRST]] += bytes_held
            change[min(rows[index, LAST], op) + 1] -= bytes_held
    latest, used = -1, size
    for at in range(op + 1):
        used += change[at]
        if used > capacity:
            latest = at
    return latest


@kernel
def pack(rows, kept, base, limit):
    """The blocks with new offsets beside those that are kept where they are, all by offset; fewer if they do not fit.

    The blocks are placed in the order given.
    """
    packed = np.empty((len(kept) + len(rows), 6), dtype=np.int64)
    packed[: len(kept)] = kept
    for count in range(len(kept), len(packed)):
        block = rows[count - len(kept)]
        size = block[TOP] - block[OFFSET]
        offset = best_fit(packed[:count], base, limit, size, block[FIRST], block[LAST])
        if offset < 0:
            return packed[:count]
        where = count
        while where > 0 and packed[where - 1, OFFSET] > offset:
            packed[where] = packed[where - 1]
            where -= 1
        packed[where] = block
        packed[where, OFFSET] = offset
        packed[where, TOP] = offset + size
    return packed
