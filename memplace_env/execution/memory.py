"""The memories of a chip as bytes of this machine: one arena per level."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.execution.layout import ALIGNMENT, Layout, Span

Bytes = NDArray[np.uint8]

POISON: Final = 0xFF
"""Fills bytes without meaning: floating-point numbers read from there are not numbers."""


class Memory:
    """Arenas.

    Args:
        layout: their sizes.
    """

    def __init__(self, layout: Layout) -> None:
        self._levels = [_aligned(size) for size in layout.arena_bytes]

    def at(self, span: Span) -> Bytes:
        """These bytes."""
        part: Bytes = self._levels[span.level][span.start : span.stop]
        return part


def raw(array: NDArray[Any]) -> Bytes:
    """The bytes of an array."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8)


def _aligned(size: int) -> Bytes:
    """Bytes that start at a multiple of `ALIGNMENT`."""
    more = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -more.ctypes.data % ALIGNMENT
    return more[start : start + size]
