"""XLA's model of an asynchronous copy engine: the copying that fits beside the ops.

Each op offers as much copy time as it takes. The copies are served first in, first out in the order of their
starts, so one that has to wait pushes back those after it.
"""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel
from memplace_env.program.program import Ints

START, END, WORK, MARK = range(4)
"""Columns of `CopyEngine.rows`. A copy runs during the ops strictly between its start and its end."""


class CopyEngine:
    """One of the two engines; XLA plans as if each had the bandwidth to itself.

    Attributes:
        resource: int64[T], copy time in ps that each op offers.
        most: most copies that may be under way at once, -1 for any number.
        fifo: True if no copy may begin after another and end before it.
        rows: int64[n, 4], start, end, work and mark of the copies, ordered by start.
    """

    def __init__(self, resource: Ints, most: int = -1, *, fifo: bool = False) -> None:
        self.resource = resource
        self.most = most
        self.fifo = fifo
        self.rows: Ints = np.empty((0, 4), dtype=np.int64)

    def accepts(self, start: int, end: int, work: int) -> bool:
        """Return whether a copy from after `start` to before `end` is in time, and so are all that it delays."""
        return bool(accepts(self.resource, self.rows, start, end, work))

    def is_barred(self, start: int, end: int) -> bool:
        """Return whether too many copies are under way between `start` and `end`, or one breaks the FIFO order."""
        return bool(is_barred(self.rows, self.most, self.fifo, start, end))

    def add(self, start: int, end: int, work: int, mark: int = 0) -> None:
        """Add a copy; `mark` identifies it for `remove`."""
        index = int(np.searchsorted(self.rows[:, START], start, side="right"))
        self.rows = np.insert(self.rows, index, [start, end, work, mark], axis=0)

    def remove(self, mark: int) -> None:
        """Remove the copies with this mark."""
        self.rows = self.rows[self.rows[:, MARK] != mark]

    def remaining(self) -> Ints:
        """Return the copy time of each op that no copy uses, int64[T] in ps."""
        left = np.empty_like(self.resource)
        play_copies(self.resource, self.rows, 0, 0, 0, left)
        return left


@kernel
def play_copies(resource, rows, start, end, work, left):
    """Serve the copies and a new one; return False as soon as one misses its end.

    Args:
        resource, rows: see `CopyEngine`.
        start, end, work: the new copy; work 0 for none.
        left: int64[T], filled with the copy time that remains of each op.
    """
    left[:] = resource
    op, index, waiting = np.int64(0), 0, True
    # Invariant: rows[:index] are served, and the new copy unless it is `waiting`; the last of them ended in `op`, so
    # no later copy gets time of an earlier op: first in, first out.
    while waiting or index < len(rows):
        # The new copy comes after those with the same start, where `CopyEngine.add` would insert it.
        if waiting and (index == len(rows) or rows[index, START] > start):
            first, due, need = np.int64(start), np.int64(end), np.int64(work)
            waiting = False
        else:
            first, due, need = rows[index, START], rows[index, END], rows[index, WORK]
            index += 1
        op = max(op, first + 1)
        # Take time of op after op until the need is met. The last op keeps its rest for the next copy.
        while need > 0:
            if op >= due:
                return False
            taken = min(need, left[op])
            left[op] -= taken
            need -= taken
            if need > 0:
                op += 1
    return True


@kernel
def accepts(resource, rows, start, end, work):
    """See `CopyEngine.accepts`."""
    return play_copies(resource, rows, start, end, work, np.empty_like(resource))


@kernel
def is_barred(rows, most, fifo, start, end):
    """See `CopyEngine.is_barred`."""
    under_way = 0
    # Count the copies that overlap with [start, end]; with FIFO a nested interval, either way round, is refused.
    for index in range(len(rows)):
        first, last = rows[index, START], rows[index, END]
        if fifo and ((first < start and last > end) or (first > start and last < end)):
            return True
        under_way += first <= end and last >= start
    # A negative `most` stands for no limit.
    return under_way >= most >= 0
