"""Which op of a planted program reads which results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_OPS: Final = 100_000
"""Of a synthetic program, our choice: what is built in seconds."""
SEEDS: Final = 2**64
"""How many seeds synthetic programs have."""

Wiring = list[tuple[int, ...]]
"""For each op, the ops whose results it reads; -1 is the graph input."""


def chain(ops: int) -> Wiring:
    """Each op reads the one before."""
    return [(op - 1,) for op in range(ops)]


def diamond(ops: int) -> Wiring:
    """Residual blocks: two ops in a row, then one that adds the block's own input."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        last = len(wiring)
        wiring += [(entry,), (last,), (last + 1, entry)]
        entry = last + 2
    return wiring[:ops]


def fan_out(ops: int, width: int = 3) -> Wiring:
    """One result read by `width` ops whose results are then joined, again and again."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        first = len(wiring)
        wiring += [(entry,)] * width + [tuple(range(first, first + width))]
        entry = first + width
    return _joined(wiring[:ops])


TOPOLOGIES: dict[str, Callable[[int], Wiring]] = {"chain": chain, "diamond": diamond, "fan-out": fan_out}


def _joined(wiring: Wiring) -> Wiring:
    """Let the last op read every result that nobody reads, so that none is dead."""
    read = {source for sources in wiring for source in sources}
    loose = tuple(op for op in range(len(wiring) - 1) if op not in read)
    return [*wiring[:-1], tuple(dict.fromkeys((*wiring[-1], *loose)))]
