"""Topologies of planted programs: the results that each op reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_OPS: Final = 100_000
"""Most ops of a synthetic program, our choice: built in seconds."""
SEEDS: Final = 2**64
"""Number of seeds of synthetic programs."""

Wiring = list[tuple[int, ...]]
"""Operands of each op: the ops whose results it reads, -1 for the graph input."""


def chain(ops: int) -> Wiring:
    """Let each op read the one before."""
    return [(op - 1,) for op in range(ops)]


def diamond(ops: int) -> Wiring:
    """Repeat residual blocks: two ops in a row, then one that adds the block's own input."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        last = len(wiring)
        wiring += [(entry,), (last,), (last + 1, entry)]
        entry = last + 2
    return wiring[:ops]


def fan_out(ops: int, width: int = 3) -> Wiring:
    """Repeat: one result read by `width` ops whose results are then joined."""
    wiring: Wiring = []
    entry = -1
    while len(wiring) < ops:
        first = len(wiring)
        wiring += [(entry,)] * width + [tuple(range(first, first + width))]
        entry = first + width
    return _joined(wiring[:ops])


TOPOLOGIES: dict[str, Callable[[int], Wiring]] = {"chain": chain, "diamond": diamond, "fan-out": fan_out}


def _joined(wiring: Wiring) -> Wiring:
    """Let the last op read every result that is not read, so that none is dead."""
    read = {source for sources in wiring for source in sources}
    loose = tuple(op for op in range(len(wiring) - 1) if op not in read)
    return [*wiring[:-1], tuple(dict.fromkeys((*wiring[-1], *loose)))]
