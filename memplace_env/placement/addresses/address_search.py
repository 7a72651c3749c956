"""Addresses for blocks whose level and life are given, or a set of blocks that has none.

Ops may reserve bytes at the end of a level, and a block must end below what any op of its life reserves. A block that
lives all the time (a resident weight) must so end lowest of all, and shares an op with every other block. Such blocks
are stacked at the bottom of their level, which loses nothing unless an offset there is pinned: what lies below one of
them could as well lie right above it. There remains a dynamic storage allocation problem: first the usual one-pass
rules, then a complete search, then a hill climb, which says how much is missing. Ops in which no block is alive split
it into independent parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from memplace_env.placement.addresses.address_kernels import (
    FOUND,
    GAVE_UP,
    NONE_EXISTS,
    PackingProblem,
    climb,
    place_in_order,
)
from memplace_env.placement.addresses.address_tree import RULES, pins_fit, search
from memplace_env.placement.compiler.block_neighbours import neighbours_of, no_lists
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints

SEED = 0
"""Seed of all randomness: an answer is no sample, so one run is enough."""
EFFORT = 20_000_000
"""Work of one complete search or climb, in blocks visited: one or two seconds. Our choice."""
VISIT_S = 7e-8
"""Seconds in which the climb visits a block, for the clock; measured."""
SEARCH_VISITS = 3
"""Blocks that the complete search visits in that time; measured."""
MANY = 1000
"""Blocks above which lists of neighbours are made before the first rule, not after it. Our choice."""
QUICK = EFFORT // 20
"""Work of each of the many searches that shrink a conflict."""
SHRINKABLE = 40
"""Number of blocks above which a conflict is not shrunk block by block."""


class WorkMeter(Protocol):
    """Meter of a longer search that asks for addresses."""

    @property
    def up(self) -> bool:
        """True once nothing is left."""

    def spend(self, work: float) -> None:
        """Count work, in seconds of one core."""


class Conflict(NamedTuple):
    """Tensors without addresses in one level.

    Attributes:
        level: the level.
        blocks: int64[n], tensors.
        permanent: int64[m], tensors that are in that level all the time.
        height: bytes of the level that blocks and reserved bytes need; a lower bound if proven, else the fewest that
            were found.
        proven: True if no addresses exist beside the permanent tensors, False if only none were found.
    """

    level: int
    blocks: Ints
    permanent: Ints
    height: int
    proven: bool


class Blocks(NamedTuple):
    """Blocks of memory.

    Attributes:
        size: int64[n], bytes.
        first, last: int64[n], ops of the life, inclusive.
        below: int64[n], the byte at which they must end.
        align: int64[n], offsets are its multiples; None: any offset.
        pin: int64[n], the offset if it is fixed, or -1; None: none is.
    """

    size: Ints
    first: Ints
    last: Ints
    below: Ints
    align: Ints | None = None
    pin: Ints | None = None

    @classmethod
    def beside(cls, size: Ints, first: Ints, last: Ints, room: Ints) -> Blocks:
        """Return blocks that lie within the room of each op of their lives, int64[T+1] in bytes, the tail's last."""
        # Every second stretch between these ends is a life.
        ends = np.column_stack([first, last + 1]).ravel()
        below = np.minimum.reduceat(np.append(room, 0), ends)[::2] if len(ends) else ends
        return cls(size, first, last, below)

    def take(self, which: Ints) -> Blocks:
        """Return the blocks with these indices."""
        return Blocks(*(column if column is None else column[which] for column in self))  # type: ignore[arg-type]


class Fit(NamedTuple):
    """Result of a packing.

    Attributes:
        outcome: FOUND, NONE_EXISTS or GAVE_UP.
        over: bytes that the block that sticks out most does so by; at most 0 if all fit.
        offset: int64[n], the offsets with which it is that.
    """

    outcome: int
    over: int
    offset: Ints


def pack(
    task: Task, blocks: Ints, clock: WorkMeter | None = None, *, explain: bool = True
) -> tuple[Ints, list[Conflict]]:
    """Return offsets of the blocks in fast levels, int64[A], and the conflicts of those without one.

    Args:
        task: the problem.
        blocks: int64[A, 4], tensor, level, first and last op.
        clock: what it took is counted there; once it is up, conflicts are no longer shrunk.
        explain: False to end at the first conflict, as it was met.
    """
    offset, conflicts = np.zeros(len(blocks), dtype=np.int64), list[Conflict]()
    tensor, level_of, first, last = blocks.T
    size, pin = task.program.tensor_bytes[tensor], task.pinned[tensor]
    always = (first == 0) & (last == task.program.num_ops - 1)
    for level in range(task.backing):
        here = level_of == level
        stacked = here & always & (pin[here] < 0).all()
        permanent, passing = np.flatnonzero(stacked), np.flatnonzero(here & ~stacked)
        offset[permanent] = np.cumsum(size[permanent]) - size[permanent]
        stack, capacity = int(size[permanent].sum()), int(task.capacities[level])
        room = task.room_bytes(level) - stack
        if room.min() < 0:
            conflicts.append(Conflict(level, tensor[passing[:0]], tensor[permanent], 0, True))
            continue
        inside = Blocks.beside(size[passing], first[passing], last[passing], room)._replace(pin=pin[passing])
        for part in parts_of(inside):
            packing = fit(inside.take(part), clock=clock)
            offset[passing[part]] = stack + packing.offset
            if packing.outcome == FOUND:
                continue
            if not explain:
                height = capacity - stack + packing.over
                return offset, [Conflict(level, tensor[passing[part]], tensor[permanent], height, False)]
            for which, over, proven in _conflicts(inside.take(part), clock):
                members = tensor[passing[part[which]]]
                conflicts.append(Conflict(level, members, tensor[permanent], capacity - stack + over, proven))
    return offset, conflicts


def fit(blocks: Blocks, effort: int = EFFORT, clock: WorkMeter | None = None) -> Fit:
    """Return offsets with which no block sticks out, if they are found; the same on every machine.

    NONE_EXISTS is a proof; GAVE_UP is not.

    Args:
        blocks: what is to fit.
        effort: work of the complete search, and of the climb, in blocks that the climb visits.
        clock: what they took is counted there.
    """
    n = len(blocks.size)
    by_start = np.argsort(blocks.first, kind="stable")
    blocks = blocks.take(by_start)
    problem = packing_problem(blocks, listed=n > MANY)
    best, best_order = Fit(GAVE_UP, np.iinfo(np.int64).max, np.zeros(n, dtype=np.int64)), by_start

    def result(packing: Fit) -> Fit:
        offset = np.empty(n, dtype=np.int64)
        offset[by_start] = packing.offset
        return packing._replace(offset=offset)

    offset = np.empty(n, dtype=np.int64)
    fits = not len(problem.pins) or pins_fit(problem)
    for index, order in enumerate(_orders(blocks)):
        if index == 1 and n <= MANY:
            problem = packing_problem(blocks)
        for smallest_gap in (True, False):
            over = int(place_in_order(problem, order, smallest_gap, offset))
            if over < best.over:
                best, best_order = best._replace(over=over, offset=offset.copy()), order
            if over <= 0 and fits:
                return result(best._replace(outcome=FOUND))
    outcome, nodes = GAVE_UP, 0
    if problem.ptr[n] >= 0:
        outcome, nodes = tree_search(problem, SEARCH_VISITS * effort // n, offset)
    if clock is not None:
        # the climb after it, too
        clock.spend(VISIT_S * (nodes * n / SEARCH_VISITS + (effort if outcome == GAVE_UP else 0)))
    if outcome == FOUND:
        return result(Fit(FOUND, int((offset - problem.high).max()), offset))
    if outcome == GAVE_UP and not len(problem.pins):
        # One round of the climb looks at n blocks for each of n.
        over = int(climb(problem, best_order.copy(), effort // n**2, SEED, offset))
        if over < best.over:
            best = best._replace(over=over, offset=offset)
        outcome = FOUND if over <= 0 else GAVE_UP
    return result(best._replace(outcome=outcome))


def packing_problem(blocks: Blocks, *, listed: bool = True) -> PackingProblem:
    """Return what the kernels read of blocks that are sorted by `first`; rules read no lists of neighbours."""
    n, size = len(blocks.size), blocks.size
    # Blocks that share an op share the op in which the later of them starts, so numbering only ops with a start keeps
    # all overlaps: `first` and `last` become the ranks of the latest start up to either end.
    starts = np.unique(blocks.first)
    first, last = (np.searchsorted(starts, ends, side="right") - 1 for ends in (blocks.first, blocks.last))
    align = np.ones(n, dtype=np.int64) if blocks.align is None else blocks.align
    pin = np.full(n, -1) if blocks.pin is None else blocks.pin
    pins = np.flatnonzero(pin >= 0)
    pins = pins[np.argsort(pin[pins], kind="stable")]
    ptr, _, other = neighbours_of(first, last, np.ones(n, dtype=np.bool_)) if listed else no_lists(n)
    begin, top = np.searchsorted(first, np.arange(len(starts) + 1)), np.zeros(len(starts), dtype=np.int64)
    return PackingProblem(size, first, last, blocks.below - size, align, pins, pin, begin, ptr, other, top)


def _orders(blocks: Blocks) -> Iterator[Ints]:
    """Yield static placing orders: by size, area, lifetime (largest first), start and end; pinned blocks first."""
    life = blocks.last - blocks.first + 1
    free = np.zeros_like(life) if blocks.pin is None else blocks.pin < 0
    for key in (-blocks.size, -blocks.size * life, -life, blocks.first, -blocks.last):
        yield np.lexsort((blocks.first, -blocks.size, key, free))


def tree_search(problem: PackingProblem, node_limit: int, offset: Ints) -> tuple[int, int]:
    """Return the outcome of a complete search of so many nodes, and its nodes; see `search`.

    Ties are decided by life, area, bytes of the fullest op; under the second rule by the last of these first.
    """
    size, first, last = problem.size, problem.first, problem.last
    life, delta = last - first + 1, np.zeros(len(problem.top) + 1, dtype=np.int64)
    np.add.at(delta, first, size)
    np.subtract.at(delta, last + 1, size)
    most = np.maximum.reduceat(delta.cumsum(), np.column_stack([first, last + 1]).ravel())[::2]
    ranks = np.empty((RULES, len(size)), dtype=np.int64)
    for rule, row in enumerate(ranks):
        keys = (-size * life, -life, -most) if rule % 2 else (-most, -size * life, -life)
        row[np.lexsort((first if rule < 2 else -last, *keys))] = np.arange(len(size))
    outcome, nodes = search(problem, ranks, node_limit, SEED, offset)
    return outcome, nodes


def parts_of(blocks: Blocks) -> Iterator[Ints]:
    """Yield groups of blocks, in time order, such that no op has blocks of two groups."""
    order = np.argsort(blocks.first, kind="stable")
    if len(order):
        # A group ends before a block that starts after all before it have ended.
        ended = np.maximum.accumulate(blocks.last[order])
        yield from np.split(order, np.flatnonzero(blocks.first[order][1:] > ended[:-1]) + 1)


def _runs_without_addresses(blocks: Blocks, clock: WorkMeter | None = None) -> Iterator[Ints]:
    """Yield short runs of blocks by start that do not fit, int64[n] each, from left to right in time.

    Each is the shortest front of those that are left, then shortened from its front.
    """
    order = np.argsort(blocks.first, kind="stable")

    def fits(which: Ints) -> bool:
        return _fits(blocks, which, clock)

    while True:
        run = _front(order, fits)
        # Reversed, so that blocks are dropped from the front of the run.
        yield _front(run[::-1], fits)
        order = order[len(run) :]
        if not len(order) or fits(order):
            return


def _conflicts(blocks: Blocks, clock: WorkMeter | None) -> Iterator[tuple[Ints, int, bool]]:
    """Yield small sets of blocks that do not fit: indices, the bytes that are missing, and whether that is proven.

    Each is one of `_runs_without_addresses`, shortened block by block.
    """
    for core in _runs_without_addresses(blocks, clock):
        if len(core) <= SHRINKABLE:
            for block in core:
                if not _fits(blocks, rest := core[core != block], clock):
                    core = rest
        packing = fit(blocks.take(core), QUICK, clock)
        if packing.outcome == NONE_EXISTS and blocks.pin is not None and (blocks.pin >= 0).any():
            yield core, packing.over, True
        elif packing.outcome == NONE_EXISTS:
            yield core, _least_raise(blocks.take(core), clock), True
        else:
            yield core, packing.over, False


def _fits(blocks: Blocks, which: Ints, clock: WorkMeter | None) -> bool:
    """Return whether a quick search finds addresses for some of the blocks; True once the time is up."""
    return (clock is not None and clock.up) or fit(blocks.take(which), QUICK, clock).outcome == FOUND


def _front(order: Ints, fits: Callable[[Ints], bool]) -> Ints:
    """Return the shortest front of `order` that does not fit, given that the whole does not."""
    # Bisection: the first `enough` blocks fit, the first `count` do not; more blocks never fit where fewer do not.
    enough, count = 0, len(order)
    while count - enough > 1:
        middle = (enough + count) // 2
        enough, count = (middle, count) if fits(order[:middle]) else (enough, middle)
    return order[:count]


def _least_raise(blocks: Blocks, clock: WorkMeter | None) -> int:
    """Return the bytes that are proven to be missing: blocks that do not fit have to reach as much higher to fit."""
    # In a packing of least offsets each block lies on a stack of others, so every top is a sum of sizes and thus a
    # multiple of their greatest common divisor.
    unit = int(np.gcd.reduce(blocks.size))
    beyond = blocks.below % unit
    whole = blocks._replace(below=blocks.below - beyond)
    low, high = 1, fit(whole, QUICK, clock).over // unit
    while low < high:
        middle = (low + high) // 2
        packing = fit(whole._replace(below=whole.below + middle * unit), QUICK, clock)
        if packing.outcome == GAVE_UP:
            break
        low, high = (low, middle + packing.over // unit) if packing.outcome == FOUND else (middle + 1, high)
    return low * unit - int(beyond.max())
