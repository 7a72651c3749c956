"""How much copying fits beside the ops: XLA's model of an asynchronous copy engine.

Each op offers as much copy time as it takes. The copies are served first in, first out in the order of their
starts, so one that has to wait pushes back those after it.
"""

from __future__ import annotations

import numpy as np

from memplace_env.kernel import kernel
from memplace_env.workload.program import Ints

START, END, WORK, MARK = range(4)


class CopyEngine:
    """One of the two engines, which XLA plans as if each had the bandwidth to itself.

    Attributes:
        resource: int64[T], copy time that each op offers.
        most: copies that may be under way at once, -1 for any number.
        fifo: whether no copy may begin after another and end before it.
        rows: int64[n, 4], start, end, work and mark of the copies, ordered by start.
    """

    def __init__(self, resource: Ints, most: int = -1, *, fifo: bool = False) -> None:
        self.resource = resource
        self.most = most
        self.fifo = fifo
        self.rows: Ints = np.empty((0, 4), dtype=np.int64)

    def accepts(self, start: int, end: int, work: int) -> bool:
        """Whether a copy that starts after `start` is done before `end`, and so are all that it pushes back."""
        return bool(accepts(self.resource, self.rows, start, end, work))

    def is_barred(self, start: int, end: int) -> bool:
        """Whether too many copies are under way at some time from `start` to `end`, or one breaks the order."""
        return bool(is_barred(self.rows, self.most, self.fifo, start, end))

    def add(self, start: int, end: int, work: int, mark: int = 0) -> None:
        """Take a copy on; `mark` is for `remove`."""
        where = int(np.searchsorted(self.rows[:, START], start, side="right"))
        self.rows = np.insert(self.rows, where, [start, end, work, mark], axis=0)

    def remove(self, mark: int) -> None:
        """Forget the copies with this mark."""
        self.rows = self.rows[self.rows[:, MARK] != mark]

    def remaining(self) -> Ints:
        """int64[T], copy time of each op that no copy uses."""
        left = np.empty_like(self.resource)
        play_copies(self.resource, self.rows, 0, 0, 0, left)
        return left


@kernel
def play_copies(resource, rows, start, end, work, left):
    """Serve the copies and a new one; False as soon as one is not done by its end. `left` gets what remains."""
    left[:] = resource
    op, index, waiting = np.int64(0), 0, True
    while waiting or index < len(rows):
        if waiting and (index == len(rows) or rows[index, START] > start):
            first, due, need = np.int64(start), np.int64(end), np.int64(work)
            waiting = False
        else:
            first, due, need = rows[index, START], rows[index, END], rows[index, WORK]
            index += 1
        op = max(op, first + 1)
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
    for index in range(len(rows)):
        first, last = rows[index, START], rows[index, END]
        if fifo and ((first < start and last > end) or (first > start and last < end)):
            return True
        under_way += first <= end and last >= start
    return under_way >= most >= 0
