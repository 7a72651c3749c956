"""Addresses for blocks of any toolchain: in the smallest arena that is found, or in one of a given size."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import PlanError
from memplace_env._lib.foreign import described
from memplace_env.placement.addresses.address_kernels import FOUND, GAVE_UP, NONE_EXISTS
from memplace_env.placement.addresses.address_search import Blocks, fit, packing_problem, parts_of
from memplace_env.placement.addresses.address_tree import pins_fit
from memplace_env.placement.compiler.block_neighbours import MOST_PAIRS
from memplace_env.program.program import Ints

WORK = 100_000_000
"""Work of one question whether blocks fit, see `fit`: seconds. Our choice."""

OPEN_ENDS = 8
"""Questions without an answer after which no more are asked of blocks that share ops. Our choice."""


class Packed(NamedTuple):
    """Addresses of blocks.

    Attributes:
        outcome: "found"; "impossible": it is proven that there are none; "unknown": none were found.
        offset: int64[n], bytes; if unknown, those that need the least memory as far as is known; 0 if impossible.
        arena: bytes that they need; 0 if impossible.
        bound: bytes that are proven to be needed.
    """

    outcome: Literal["found", "impossible", "unknown"]
    offset: Ints
    arena: int
    bound: int

    @property
    def proven(self) -> bool:
        """True if it is found in the smallest arena, or proven to be impossible."""
        return self.outcome == "impossible" or (self.outcome == "found" and self.arena == self.bound)


def pack(
    size: ArrayLike,
    first: ArrayLike,
    last: ArrayLike,
    *,
    capacity: int | None = None,
    align: ArrayLike = 1,
    pin: ArrayLike = -1,
    work: int = WORK,
) -> Packed:
    """Return an offset for each block, so that blocks alive together share no byte; the same on every machine.

    Args:
        size: int[n], bytes.
        first, last: int[n], first and last unit of time in which each block is alive, inclusive.
        capacity: bytes of the arena; None: the smallest that is found.
        align: int or int[n], offsets are its multiples.
        pin: int or int[n], the offset where it is fixed, else -1.
        work: most work of one question whether blocks fit, in blocks visited.

    Raises:
        PlanError: if arrays do not match or hold what is no block, a pin is no multiple of its alignment, or too many
            blocks are alive together.
    """
    if not (capacity is None or isinstance(capacity, int | np.integer)):
        raise PlanError(f"The capacity is a whole number of bytes, not {described(capacity)}.")
    try:
        arrays = [np.asarray(column) for column in (size, first, last, align, pin)]
        arrays = [array.astype(np.int64, casting="safe" if array.size else "unsafe") for array in arrays]
        size, first, last, align, pin = (array.copy() for array in np.broadcast_arrays(*arrays))
    except (TypeError, ValueError) as error:
        raise PlanError(f"Blocks are whole numbers in arrays of one length: {error}") from None
    n = size.size
    if len({array.shape for array in arrays if array.ndim}) > 1:
        raise PlanError("Blocks are whole numbers in arrays of one length.")
    if (
        size.ndim != 1
        or (size < 0).any()
        or (last < first).any()
        or (align < 1).any()
        or (pin % align * (pin >= 0)).any()
    ):
        raise PlanError("Blocks need sizes of at least 0, an end not before the start, and pins that are aligned.")
    if n == 0:
        return Packed("found", size, 0, 0)
    if size.sum(dtype=float) + float(align.max()) * n + max(float(pin.max()), 0) > 2**60:
        raise PlanError("Blocks take more than 2**60 bytes.")
    pairs = int((np.arange(n) - np.searchsorted(np.sort(last), np.sort(first))).sum())
    if pairs > MOST_PAIRS:
        raise PlanError(f"{pairs:,} pairs of blocks are alive together, more than {MOST_PAIRS:,}.")
    # Every end in a packing of least offsets is a multiple of this.
    unit = max(int(np.gcd.reduce(np.concatenate([size, align[align > 1], pin[pin > 0]]))), 1)
    pin = np.where(pin < 0, -1, pin // unit)
    blocks = Blocks(size // unit, first, last, np.zeros_like(size), np.maximum(align // unit, 1), pin)
    # At equal times what ends counts before what begins.
    delta = np.concatenate([-blocks.size, blocks.size])
    alive = delta[np.lexsort((delta, np.concatenate([last + 1, first])))].cumsum()
    low = max(int(alive.max()), int((blocks.size + np.maximum(pin, 0)).max()))
    room = low if capacity is None else capacity // unit
    impossible = Packed("impossible", np.zeros_like(size), 0, low * unit)
    by_start = blocks.take(np.argsort(first, kind="stable"))
    if not pins_fit(packing_problem(by_start, listed=False)) or room < low:
        return impossible
    outcome: Literal["found", "unknown"] = "found"
    offset = np.zeros_like(size)
    if capacity is None:
        low, offset = lowest(blocks, np.ones(n, dtype=np.bool_), low, work)
    for part in () if capacity is None else parts_of(blocks):
        packing = fit(blocks.take(part)._replace(below=np.full(len(part), room)), work)
        offset[part] = packing.offset
        if packing.outcome == NONE_EXISTS:
            return impossible._replace(bound=(room + 1) * unit)
        if packing.outcome != FOUND:
            outcome = "unknown"
    return Packed(outcome, offset * unit, int((offset + blocks.size).max()) * unit, low * unit)


def lowest(blocks: Blocks, own: NDArray[np.bool_], low: int, work: int = WORK) -> tuple[int, Ints]:
    """Return a bound of at least `low`, and offsets int64[n] with which `own` blocks need as little above it as found.

    `below` is that in a memory of no bytes; `work` is that of one question, see `fit`.
    """
    bound, height, offset, index = low, low, np.zeros(len(own), dtype=np.int64), np.flatnonzero(own)
    for part in parts_of(blocks.take(index)):
        proven, height, offset[index[part]] = _raised(blocks.take(index[part]), height, work)
        bound = max(bound, proven)
    return bound, offset


def _raised(blocks: Blocks, low: int, work: int) -> tuple[int, int, Ints]:
    """Return a bound on the memory of blocks of one part or 0, and a size of at least `low` with offsets in it."""
    # Less than `bound` is too small, less than `tried` is not asked again, and `best` is the least that is known to do.
    bound, tried, best, offset, size, open_ends = 0, low, None, blocks.size, low, 0
    while best is None or (tried < best and open_ends < OPEN_ENDS):
        packing = fit(blocks._replace(below=blocks.below + size), work)
        if best is None or size + packing.over < best:
            best, offset = max(size + packing.over, low), packing.offset
        if packing.outcome != FOUND:
            tried = size + 1
        if packing.outcome == NONE_EXISTS:
            bound = tried
        open_ends += packing.outcome == GAVE_UP
        size = (tried + best) // 2
    return bound, best, offset
