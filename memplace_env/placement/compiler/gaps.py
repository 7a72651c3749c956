"""The best-fit rule as a compiled function: a new block takes the smallest gap between blocks that it fits in."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.kernel import kernel

ENDLESS = np.int64(2**62)
"""Larger than any gap."""


@kernel
def narrower_gap(best, best_size, begin, gap_size, size):
    """Return (begin, size) of the better of two gaps for a block of `size` bytes: the smaller one that fits.

    Gaps are offered by rising address, so that of equal ones the lowest stays. `best` is -1 before any has fitted, with
    `best_size` ENDLESS.
    """
    # Strictly smaller, so that the earlier of two equal gaps stays.
    if size <= gap_size < best_size:
        return begin, gap_size
    return best, best_size
