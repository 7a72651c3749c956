"""A chip's memories in this machine's memory: one arena per level."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.backends.ort.arena_layout import ALIGNMENT, ArenaLayout, ByteSpan

Bytes = NDArray[np.uint8]

POISON: Final = 0xFF
"""Fill of bytes without valid contents: floating-point numbers read from there are NaN."""


class Arenas:
    """The arenas of all levels.

    Args:
        layout: their sizes.
    """

    def __init__(self, layout: ArenaLayout) -> None:
        self._levels = [aligned(size) for size in layout.arena_bytes]

    def at(self, span: ByteSpan) -> Bytes:
        """Return the bytes of a span, as a view."""
        part: Bytes = self._levels[span.level][span.start : span.stop]
        return part


def raw(array: NDArray[Any]) -> Bytes:
    """Return the bytes of an array."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8)


def aligned(size: int) -> Bytes:
    """Allocate bytes that start at a multiple of `ALIGNMENT`."""
    more = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -more.ctypes.data % ALIGNMENT
    return more[start : start + size]
