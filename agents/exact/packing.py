"""Addresses for blocks whose level and life are given, or the reason why there are none.

A block that lives all the time (a resident weight) occupies its bytes in every op, so such blocks stack at the top of
their level without loss. What remains below is a dynamic storage allocation problem: first the usual one-pass rules,
then a complete search, then a hill climb. Spans of time in which nothing is alive split it into independent parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from agents.exact.kernels import FOUND, GAVE_UP, NONE_EXISTS, climb, place_in_order, search
from agents.exact.static.mapping import Lives
from agents.exact.static.model import live_sets
from memplace_env.task import Task
from memplace_env.workload.program import Ints

EFFORT = 20_000_000
"""Work of one complete search or climb, in blocks looked at: a second or two."""
QUICK = EFFORT // 20
"""The same for the many searches that narrow a conflict down."""
SHRINKABLE = 40
"""Conflicts of more blocks are not narrowed down one by one."""


class Conflict(NamedTuple):
    """Tensors that find no addresses together.

    Attributes:
        level: where.
        blocks: int64[n], tensors.
        permanent: int64[m], tensors that are in that level all the time.
        height: bytes that the blocks need together: at least, if proven; otherwise, the fewest found.
        proven: whether no addresses exist beside the permanent tensors, or none were found.
    """

    level: int
    blocks: Ints
    permanent: Ints
    height: int
    proven: bool


class Blocks(NamedTuple):
    """int64[n] each: bytes, and first and last op of the life."""

    size: Ints
    first: Ints
    last: Ints

    def take(self, which: Ints) -> Blocks:
        """Some of them."""
        return Blocks(self.size[which], self.first[which], self.last[which])

    @property
    def load(self) -> int:
        """Most bytes alive at once: no packing is lower."""
        return int((live_sets(self.first, self.last) @ self.size).max(initial=0))


class Fit(NamedTuple):
    """`outcome` FOUND, NONE_EXISTS or GAVE_UP; `peak`: the lowest height reached; `offset` int64[n], at that height."""

    outcome: int
    peak: int
    offset: Ints


def pack(
    task: Task, lives: Lives, seed: int, expired: Callable[[], bool] = lambda: False
) -> tuple[Ints, list[Conflict]]:
    """int64[K] offsets for tensors in fast levels, and what kept others from having one.

    All blocks lie below the most that any op reserves, so that nothing is proven where some ops reserve less.
    Deterministic, unless `expired` becomes true: then conflicts are no longer narrowed down.
    """
    program = task.program
    offset = np.zeros(program.num_tensors, dtype=np.int64)
    size, conflicts = program.tensor_bytes, []
    always = (lives.first == 0) & (lives.last == program.num_ops - 1)
    for level in range(task.backing):
        permanent, passing = (np.flatnonzero((lives.level == level) & those) for those in (always, ~always))
        reserved = task.costs.reserved_bytes[:, level]
        even, capacity = reserved.min() == reserved.max(), task.accelerator.levels[level].capacity_bytes
        capacity -= int(reserved.max())
        offset[permanent] = capacity - np.cumsum(size[permanent])
        height = capacity - int(size[permanent].sum())
        if height < 0:
            conflicts.append(Conflict(level, passing[:0], permanent, 0, bool(even)))
            continue
        blocks = Blocks(size[passing], lives.first[passing], lives.last[passing])
        for part in parts_of(blocks):
            found = fit(blocks.take(part), height, seed)
            offset[passing[part]] = found.offset
            if found.outcome != FOUND:
                for which, needed, proven in _conflicts(blocks.take(part), height, seed, expired):
                    conflicts.append(Conflict(level, passing[part[which]], permanent, needed, proven and bool(even)))
    return offset, conflicts


def fit(blocks: Blocks, height: int, seed: int, effort: int = EFFORT) -> Fit:
    """Find offsets so that all blocks lie below `height`.

    NONE_EXISTS is a proof; GAVE_UP is not.
    """
    size, n = blocks.size, len(blocks.size)
    starts = np.unique(blocks.first)
    first, last = (np.searchsorted(starts, ends, side="right") - 1 for ends in (blocks.first, blocks.last))
    best = Fit(NONE_EXISTS if blocks.load > height else GAVE_UP, np.iinfo(np.int64).max, np.zeros(n, dtype=np.int64))
    best_order = np.arange(n)
    offset = np.empty(n, dtype=np.int64)
    for order in _orders(blocks):
        for smallest_gap in (True, False):
            peak = int(place_in_order(order, size, first, last, smallest_gap, offset))
            if peak < best.peak:
                best, best_order = best._replace(peak=peak, offset=offset.copy()), order
            if peak <= height:
                return best._replace(outcome=FOUND)
    if best.outcome == NONE_EXISTS:
        return best
    by_area = np.argsort(-size * (last - first + 1), kind="stable")
    outcome, _ = search(size[by_area], first[by_area], last[by_area], height, effort // n, offset)
    if outcome == FOUND:
        unsorted = np.empty_like(offset)
        unsorted[by_area] = offset
        return Fit(FOUND, int((unsorted + size).max()), unsorted)
    if outcome == NONE_EXISTS:
        return best._replace(outcome=NONE_EXISTS)
    peak = int(climb(best_order.copy(), size, first, last, height, effort // n**2, seed, offset))
    if peak < best.peak:
        best = best._replace(peak=peak, offset=offset)
    return best._replace(outcome=FOUND if peak <= height else GAVE_UP)


def _orders(blocks: Blocks) -> Iterator[Ints]:
    """Static placing orders: by size, area, lifetime (all largest first), start and end."""
    life = blocks.last - blocks.first + 1
    for key in (-blocks.size, -blocks.size * life, -life, blocks.first, -blocks.last):
        yield np.lexsort((blocks.first, -blocks.size, key))


def parts_of(blocks: Blocks) -> Iterator[Ints]:
    """Groups of blocks, in time order, such that no two of different groups are alive at the same time."""
    order = np.argsort(blocks.first, kind="stable")
    if len(order):
        ended = np.maximum.accumulate(blocks.last[order])
        yield from np.split(order, np.flatnonzero(blocks.first[order][1:] > ended[:-1]) + 1)


def _conflicts(blocks: Blocks, height: int, seed: int, expired: Callable[[], bool]) -> Iterator[tuple[Ints, int, bool]]:
    """Small sets of blocks, of those that do not fit: which, the height they need, whether that is proven.

    From left to right in time: the shortest run of blocks by start that does not fit, then shortened from its front,
    then block by block. The next set is sought among later blocks.
    """
    order = np.argsort(blocks.first, kind="stable")

    def fits(which: Ints) -> bool:
        return expired() or fit(blocks.take(which), height, seed, QUICK).outcome == FOUND

    while True:
        run = _front(order, fits)
        core = _front(run[::-1], fits)
        if len(core) <= SHRINKABLE:
            for block in core:
                if not fits(rest := core[core != block]):
                    core = rest
        found = fit(blocks.take(core), height, seed, QUICK)
        if found.outcome == NONE_EXISTS:
            yield core, _least_height(blocks.take(core), height + 1, found.peak, seed), True
        else:
            yield core, found.peak, False
        order = order[len(run) :]
        if not len(order) or fits(order):
            return


def _front(order: Ints, fits: Callable[[Ints], bool]) -> Ints:
    """The shortest front of `order` that does not fit, given that the whole does not."""
    enough, count = 0, len(order)
    while count - enough > 1:
        middle = (enough + count) // 2
        enough, count = (middle, count) if fits(order[:middle]) else (enough, middle)
    return order[:count]


def _least_height(blocks: Blocks, low: int, high: int, seed: int) -> int:
    """The greatest height proven necessary: `low` is, `high` is enough, and every height is a sum of sizes."""
    unit = int(np.gcd.reduce(blocks.size))
    low, high = -(-low // unit), high // unit
    while low < high:
        middle = (low + high) // 2
        found = fit(blocks, middle * unit, seed, QUICK)
        if found.outcome == GAVE_UP:
            break
        low, high = (low, found.peak // unit) if found.outcome == FOUND else (middle + 1, high)
    return low * unit
