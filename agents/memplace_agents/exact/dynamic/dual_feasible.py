"""Dual-feasible functions: sizes are replaced by weights that add up to at most 1 in each set of blocks that fits.

A row "the sizes alive in an op are at most its room" counts shares: two blocks of 0.8 of the room, each to 5/8, fit. A
function f is dual feasible if the weights f(s_1) + f(s_2) + ... are at most 1 wherever s_1 + s_2 + ... <= 1; then the
row with weights in the place of sizes holds for all plans, and cuts off such shares: f(0.8) = 1 leaves one block.
Families after Fekete and Schepers, "New classes of fast lower bounds for bin packing problems" (2001), and Clautiaux,
Alves and Valerio de Carvalho, "A survey of dual-feasible and superadditive functions" (2010).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.highs import Floats
from memplace_env.program.program import Ints

MOST_STEPS = 7
"""Greatest number of steps of a staircase. Our choice; more of them cut off little."""
MOST_MULTIPLES = 3
"""Greatest multiple of a size that the room is measured in. Our choice."""


class DualFeasible(NamedTuple):
    """A function of sizes in bytes; 0 for a part that is left out.

    Attributes:
        threshold: sizes below it weigh nothing, those that leave less than it free weigh 1, others as before.
        steps: k; a size s becomes s where (k+1) s is whole, else floor((k+1) s) / k; after the threshold.
        unit: sizes are counted in units of unit / multiple, and the rest of a unit counts as far as it is longer than
            that of the room (Burdett and Johnson); in the place of the two others.
        multiple: see above.
    """

    threshold: int = 0
    steps: int = 0
    unit: int = 0
    multiple: int = 0


def candidates(size: Ints, room: int) -> Iterator[DualFeasible]:
    """Yield the functions of all families that these distinct sizes, of at most the room, tell apart."""
    # A threshold may grow up to the next size without any loss, and is at most half of the room.
    thresholds = {0, (room + 1) // 2, *size[2 * size <= room].tolist()}
    for threshold in sorted(thresholds):
        for steps in range(MOST_STEPS + 1):
            if threshold or steps:  # sizes themselves are rows already
                yield DualFeasible(threshold, steps)
    for unit in size.tolist():
        for multiple in range(1, MOST_MULTIPLES + 1):
            yield DualFeasible(0, 0, unit, multiple)


def weights_of(functions: Sequence[DualFeasible], size: Ints, room: int) -> Floats:
    """Return the weights of sizes by each function, float64[functions, n] in [0, 1]; what exceeds the room weighs 1."""
    threshold, steps, unit, multiple = np.array(functions, dtype=np.int64).reshape(-1, 4).T[:, :, None]
    size = np.minimum(size, room)[None]
    # Whole numbers up to the last division, so that rounding decides nothing.
    kept = np.where(size < threshold, 0, np.where(size > room - threshold, room, size))
    whole, rest = np.divmod((steps + 1) * kept, room)
    stairs = np.where((steps == 0) | (rest == 0), kept / room, whole / np.maximum(steps, 1))
    # With C = multiple * room / unit: (floor(C s) + max(0, rest of C s - rest of C) / (1 - rest of C)) / floor(C).
    divisor = np.maximum(unit, 1)
    whole, rest = np.divmod(multiple * size, divisor)
    units, missing = np.divmod(multiple * room, divisor)
    johnson = (whole + np.maximum(rest - missing, 0) / (divisor - missing)) / np.maximum(units, 1)
    return np.asarray(np.where(unit > 0, johnson, stairs))
