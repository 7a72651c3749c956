"""Addresses for blocks whose level and life are given, or a set of blocks that has none.

A block that lives all the time (a resident weight) occupies its bytes in every op, so such blocks are stacked at the
top of their level without loss. Below them remains a dynamic storage allocation problem: first the usual one-pass
rules, then a complete search, then a hill climb. Ops in which no block is alive split it into independent parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.address_kernels import FOUND, GAVE_UP, NONE_EXISTS, climb, place_in_order, search
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.static.level_moves import Lives
from memplace_agents.exact.static.static_model import live_sets
from memplace_env._lib.units import ceil_div
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

EFFORT = 20_000_000
"""Work of one complete search or climb, in blocks visited: one or two seconds. Our choice."""
VISIT_S = 7e-8
"""Seconds to visit a block, for the clock; measured."""
QUICK = EFFORT // 20
"""Work of each of the many searches that shrink a conflict."""
SHRINKABLE = 40
"""Number of blocks above which a conflict is not shrunk block by block."""


class Conflict(NamedTuple):
    """Tensors without addresses in one level.

    Attributes:
        level: the level.
        blocks: int64[n], tensors.
        permanent: int64[m], tensors that are in that level all the time.
        height: bytes that the blocks need together; a lower bound if proven, else the fewest that were found.
        proven: True if no addresses exist beside the permanent tensors, False if only none were found.
    """

    level: int
    blocks: Ints
    permanent: Ints
    height: int
    proven: bool


class Blocks(NamedTuple):
    """Blocks of memory: int64[n] each of bytes, first and last op of the life."""

    size: Ints
    first: Ints
    last: Ints

    def take(self, which: Ints) -> Blocks:
        """Return the blocks with these indices."""
        return Blocks(self.size[which], self.first[which], self.last[which])

    @property
    def load(self) -> int:
        """Most bytes alive at once; no packing needs less."""
        return int((live_sets(self.first, self.last) @ self.size).max(initial=0))


class Fit(NamedTuple):
    """Result of a packing.

    Attributes:
        outcome: FOUND, NONE_EXISTS or GAVE_UP.
        peak: least height in bytes that was reached.
        offset: int64[n], offsets with that height.
    """

    outcome: int
    peak: int
    offset: Ints


def pack(task: Task, lives: Lives, seed: int, clock: Clock | None = None) -> tuple[Ints, list[Conflict]]:
    """Return offsets of the tensors in fast levels, int64[K], and the conflicts of those without one.

    All blocks lie below the most that any op reserves, so that nothing is proven if some ops reserve less.
    Once the clock is up, conflicts are no longer shrunk.
    """
    program = task.program
    offset = np.zeros(program.num_tensors, dtype=np.int64)
    size, conflicts = program.tensor_bytes, []
    # A block that lives in all ops overlaps in time with every other block, so its bytes are lost to all of them at
    # whatever address: stacking these at the top rules out no packing.
    always = (lives.first == 0) & (lives.last == program.num_ops - 1)
    for level in range(task.backing):
        permanent, passing = (np.flatnonzero((lives.level == level) & chosen) for chosen in (always, ~always))
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
            packing = fit(blocks.take(part), height, seed, clock=clock)
            offset[passing[part]] = packing.offset
            if packing.outcome != FOUND:
                for which, needed, proven in _conflicts(blocks.take(part), height, seed, clock):
                    conflicts.append(Conflict(level, passing[part[which]], permanent, needed, proven and bool(even)))
    return offset, conflicts


def fit(
    blocks: Blocks,
    height: int,
    seed: int,
    effort: int = EFFORT,
    clock: Clock | None = None,
    near: Ints | None = None,
) -> Fit:
    """Return offsets with which all blocks lie below `height`, if they are found.

    NONE_EXISTS is a proof; GAVE_UP is not.

    Args:
        blocks, height: what is to fit below what.
        seed: of the hill climb.
        effort: work of the complete search, and of the climb, in blocks visited.
        clock: what they took is counted there.
        near: int64[n], offsets in another packing, -1 for blocks that it does not have. Blocks are placed in their
            order first: each then lies where it was or lower, and the others in the gaps.
    """
    size, n = blocks.size, len(blocks.size)
    # Blocks that share an op share the op in which the later of them starts, so numbering only ops with a start keeps
    # all overlaps: `first` and `last` become the ranks of the latest start up to either end.
    starts = np.unique(blocks.first)
    first, last = (np.searchsorted(starts, ends, side="right") - 1 for ends in (blocks.first, blocks.last))
    best = Fit(NONE_EXISTS if blocks.load > height else GAVE_UP, np.iinfo(np.int64).max, np.zeros(n, dtype=np.int64))
    best_order = np.arange(n)
    offset = np.empty(n, dtype=np.int64)
    for order in _orders(blocks, near):
        for smallest_gap in (True, False):
            peak = int(place_in_order(order, size, first, last, smallest_gap, offset))
            if peak < best.peak:
                best, best_order = best._replace(peak=peak, offset=offset.copy()), order
            if peak <= height:
                return best._replace(outcome=FOUND)
    if best.outcome == NONE_EXISTS:
        return best
    # Among equal offsets the search tries lower indices first; large areas first, our choice.
    by_area = np.argsort(-size * (last - first + 1), kind="stable")
    outcome, nodes = search(size[by_area], first[by_area], last[by_area], height, effort // n, offset)
    if clock is not None:
        clock.spend(VISIT_S * (nodes * n + (effort if outcome == GAVE_UP else 0)))  # the climb after it, too
    if outcome == FOUND:
        unsorted = np.empty_like(offset)
        unsorted[by_area] = offset
        return Fit(FOUND, int((unsorted + size).max()), unsorted)
    if outcome == NONE_EXISTS:
        return best._replace(outcome=NONE_EXISTS)
    # One round of the climb looks at n blocks for each of n.
    peak = int(climb(best_order.copy(), size, first, last, height, effort // n**2, seed, offset))
    if peak < best.peak:
        best = best._replace(peak=peak, offset=offset)
    return best._replace(outcome=FOUND if peak <= height else GAVE_UP)


def _orders(blocks: Blocks, near: Ints | None) -> Iterator[Ints]:
    """Yield static placing orders: as in another packing; by size, area, lifetime (largest first), start and end."""
    if near is not None:
        yield np.lexsort((-blocks.size, near, near < 0))
    life = blocks.last - blocks.first + 1
    for key in (-blocks.size, -blocks.size * life, -life, blocks.first, -blocks.last):
        yield np.lexsort((blocks.first, -blocks.size, key))


def parts_of(blocks: Blocks) -> Iterator[Ints]:
    """Yield groups of blocks, in time order, such that no op has blocks of two groups."""
    order = np.argsort(blocks.first, kind="stable")
    if len(order):
        # A group ends before a block that starts after all before it have ended.
        ended = np.maximum.accumulate(blocks.last[order])
        yield from np.split(order, np.flatnonzero(blocks.first[order][1:] > ended[:-1]) + 1)


def runs_without_addresses(blocks: Blocks, height: int, seed: int, clock: Clock | None = None) -> Iterator[Ints]:
    """Yield short runs of blocks by start that do not fit, int64[n] each, from left to right in time.

    Each is the shortest front of those that are left, then shortened from its front.
    """
    order = np.argsort(blocks.first, kind="stable")

    def fits(which: Ints) -> bool:
        return _fits(blocks, which, height, seed, clock)

    while True:
        run = _front(order, fits)
        # Reversed, so that blocks are dropped from the front of the run.
        yield _front(run[::-1], fits)
        order = order[len(run) :]
        if not len(order) or fits(order):
            return


def _conflicts(blocks: Blocks, height: int, seed: int, clock: Clock | None) -> Iterator[tuple[Ints, int, bool]]:
    """Yield small sets of blocks that do not fit: indices, the height they need, and whether that is proven.

    Each is one of `runs_without_addresses`, shortened block by block.
    """
    for core in runs_without_addresses(blocks, height, seed, clock):
        if len(core) <= SHRINKABLE:
            for block in core:
                if not _fits(blocks, rest := core[core != block], height, seed, clock):
                    core = rest
        packing = fit(blocks.take(core), height, seed, QUICK, clock)
        if packing.outcome == NONE_EXISTS:
            yield core, _least_height(blocks.take(core), height + 1, packing.peak, seed, clock), True
        else:
            yield core, packing.peak, False


def _fits(blocks: Blocks, which: Ints, height: int, seed: int, clock: Clock | None) -> bool:
    """Return whether a quick search finds addresses for some of the blocks; True once the time is up."""
    return (clock is not None and clock.up) or fit(blocks.take(which), height, seed, QUICK, clock).outcome == FOUND


def _front(order: Ints, fits: Callable[[Ints], bool]) -> Ints:
    """Return the shortest front of `order` that does not fit, given that the whole does not."""
    # Bisection: the first `enough` blocks fit, the first `count` do not; more blocks never fit where fewer do not.
    enough, count = 0, len(order)
    while count - enough > 1:
        middle = (enough + count) // 2
        enough, count = (middle, count) if fits(order[:middle]) else (enough, middle)
    return order[:count]


def _least_height(blocks: Blocks, low: int, high: int, seed: int, clock: Clock | None) -> int:
    """Return the greatest height that is proven necessary, given that `low` is necessary and `high` is enough."""
    # In a packing of least offsets each block lies on a stack of others, so every height is a sum of sizes and thus a
    # multiple of their greatest common divisor.
    unit = int(np.gcd.reduce(blocks.size))
    low, high = ceil_div(low, unit), high // unit
    while low < high:
        middle = (low + high) // 2
        packing = fit(blocks, middle * unit, seed, QUICK, clock)
        if packing.outcome == GAVE_UP:
            break
        low, high = (low, packing.peak // unit) if packing.outcome == FOUND else (middle + 1, high)
    return low * unit
