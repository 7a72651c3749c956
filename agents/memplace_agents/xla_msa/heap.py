"""Addresses in fast memory: XLA's best-fit heap, and the repacker that chooses all of them anew.

A block holds its addresses over a closed interval of ops. Free space for an interval is what no block that meets it
in time covers; the smallest gap that fits is taken, the lowest among equals, and the endless space above the blocks
only if no gap fits. What an op reserves for itself is a block at the end of memory that stays where it is.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.placement.compiler.placing_kernels import ENDLESS, narrower_gap
from memplace_env.program.program import Ints

OFFSET, TOP, FIRST, LAST, BLOCK, MARK = range(6)
"""Columns of `Heap.rows`. A block covers bytes OFFSET to TOP - 1 during ops FIRST to LAST."""
RESERVED = -1
"""Mark of the blocks that ops reserve; no tensor has this number."""


class Heap:
    """The blocks of fast memory and their addresses.

    Attributes:
        base, limit: lowest byte that may be used, and the byte past the highest.
        rows: int64[n, 6], offset, end address, first and last op, number and mark of the blocks, ordered by offset.

    Args:
        base, limit: as above.
        reserved: int64[T], bytes below the limit that each op keeps for itself; None if none does.
    """

    def __init__(self, base: int, limit: int, reserved: Ints | None = None) -> None:
        self.base = base
        self.limit = limit
        self.rows: Ints = (
            np.empty((0, 6), dtype=np.int64) if reserved is None else _reserved_rows(base, limit, reserved)
        )
        self._blocks = 0

    def fit(self, size: int, first: int, ends: Ints) -> int:
        """Return the offset of a gap from op `first` to the latest of the rising `ends` that has one, else -1."""
        return int(fit_furthest(self.rows, self.base, self.limit, size, first, ends))

    def place(self, offset: int, size: int, first: int, last: int, mark: int) -> int:
        """Add a block and return its number; `mark` identifies it for `remove`."""
        self._blocks += 1
        index = int(np.searchsorted(self.rows[:, OFFSET], offset))
        self.rows = np.insert(self.rows, index, [offset, offset + size, first, last, self._blocks, mark], axis=0)
        return self._blocks

    def free_until(self, block: int) -> int:
        """Return the last op to which a block can be extended."""
        return int(free_until(self.rows, block))

    def extend(self, block: int, last: int) -> None:
        """Set the last op of a block."""
        self.rows[self.rows[:, BLOCK] == block, LAST] = last

    def offset(self, block: int) -> int:
        """Return the present offset of a block."""
        return int(self.rows[self.rows[:, BLOCK] == block, OFFSET].item())

    def full_at(self, size: int, op: int) -> int:
        """Return the latest op up to `op` with fewer than `size` bytes free, -1 if there is none."""
        return int(full_at(self.rows, self.limit - self.base, size, op))

    def remove(self, mark: int) -> None:
        """Remove the blocks with this mark."""
        self.rows = self.rows[self.rows[:, MARK] != mark]

    def repack(self) -> bool:
        """Choose all addresses anew, longest-lived blocks first, then larger ones; return whether they fit."""
        fixed = self.rows[:, MARK] == RESERVED
        rows = self.rows[~fixed]
        duration = rows[:, LAST] - rows[:, FIRST]
        order = np.lexsort((rows[:, BLOCK], rows[:, OFFSET] - rows[:, TOP], -duration))
        packed = pack(rows[order], self.rows[fixed], self.base, self.limit)
        fits = len(packed) == len(self.rows)
        if fits:
            self.rows = packed
        return fits


def _reserved_rows(base: int, limit: int, reserved: Ints) -> Ints:
    """Return the rows of an empty heap: one block for each run of ops that reserve equally many bytes."""
    # Reserved bytes are at least 0, so the -1 in front makes op 0 begin a run.
    first = np.flatnonzero(np.diff(reserved, prepend=-1))
    last = np.append(first, len(reserved))[1:] - 1
    low = np.maximum(limit - reserved[first], base)
    rows = np.column_stack(
        [low, np.full_like(low, limit), first, last, np.zeros_like(low), np.full_like(low, RESERVED)]
    )
    return rows[low < limit][np.argsort(low[low < limit], kind="stable")]


@kernel
def best_fit(rows, base, limit, size, first, last):
    """Return the offset of the best gap for an interval of ops, -1 if none fits."""
    best, best_size, cursor = np.int64(-1), ENDLESS, np.int64(base)
    # Sweep by rising offset over the blocks that meet the interval; below `cursor` everything is covered or offered.
    for index in range(len(rows)):
        if rows[index, FIRST] > last or rows[index, LAST] < first:
            continue
        best, best_size = narrower_gap(best, best_size, cursor, rows[index, OFFSET] - cursor, size)
        cursor = max(cursor, rows[index, TOP])
    # The space above all blocks is taken only if no gap fits.
    if best < 0 and cursor + size <= limit:
        best = cursor
    return best


@kernel
def fit_furthest(rows, base, limit, size, first, ends):
    """See `Heap.fit`."""
    best = best_fit(rows, base, limit, size, first, ends[0])
    low, high = 0, len(ends) - 1
    # Bisection, as a gap for an interval is one for every shorter interval. Invariant: ends[low] has the gap `best`,
    # and no end after ends[high] has one.
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
    # Find the block's row by its number.
    while rows[mine, BLOCK] != block:
        mine += 1
    until = ENDLESS
    # The first block that comes later and shares an address with it ends its time.
    for index in range(len(rows)):
        meets = rows[index, OFFSET] < rows[mine, TOP] and rows[index, TOP] > rows[mine, OFFSET]
        if meets and rows[index, FIRST] > rows[mine, LAST]:
            until = min(until, rows[index, FIRST] - 1)
    return until


@kernel
def full_at(rows, capacity, size, op):
    """See `Heap.full_at`."""
    # change[t] is the difference of the bytes held in op t and in op t - 1.
    change = np.zeros(op + 2, dtype=np.int64)
    for index in range(len(rows)):
        if rows[index, FIRST] <= op:
            bytes_held = rows[index, TOP] - rows[index, OFFSET]
            change[rows[index, FIRST]] += bytes_held
            change[min(rows[index, LAST], op) + 1] -= bytes_held
    latest, used = -1, size
    # `used` is what is held in `now` together with the new block.
    for now in range(op + 1):
        used += change[now]
        if used > capacity:
            latest = now
    return latest


@kernel
def pack(rows, fixed, base, limit):
    """Return the blocks with new offsets, ordered by offset, beside the fixed ones; fewer rows if they do not fit.

    The blocks are placed in the order given.
    """
    packed = np.empty((len(fixed) + len(rows), 6), dtype=np.int64)
    packed[: len(fixed)] = fixed
    for count in range(len(fixed), len(packed)):
        # Invariant: packed[:count] are the fixed blocks and those placed so far, by rising offset.
        block = rows[count - len(fixed)]
        size = block[TOP] - block[OFFSET]
        offset = best_fit(packed[:count], base, limit, size, block[FIRST], block[LAST])
        if offset < 0:
            return packed[:count]
        # Insertion sort: shift the higher blocks up by one row.
        index = count
        while index > 0 and packed[index - 1, OFFSET] > offset:
            packed[index] = packed[index - 1]
            index -= 1
        packed[index] = block
        packed[index, OFFSET] = offset
        packed[index, TOP] = offset + size
    return packed
