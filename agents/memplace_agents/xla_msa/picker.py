"""XLA's cost-analysis prefetch interval picker: the ops during which copies should run.

Times are ops; a copy from s to e overlaps with the ops strictly between. The picker always uses the op times with
everything in the backing memory, whatever has been decided since.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.kernel import kernel
from memplace_env.program.program import Ints

EARLIER_STEPS = 100
"""XLA's kNumExploredDecreasingIntervals: steps into which the whole overlap is cut."""
EVICTION_RETRY_MULTIPLIER = 2.0
"""XLA's kEvictionRetryMultiplier: growth of the time for an eviction with each retry."""


class Window(NamedTuple):
    """Starts of a copy: the latest op after which it still gets its least overlap, and all starts to try in order."""

    latest: int
    starts: Ints


class IntervalPicker:
    """Chooses the intervals of ops in which copies run.

    Args:
        elapsed_ps: int64[T], op times with everything in the backing memory.
        min_ratio, preferred_ratio: overlap that a copy must have and should have, in units of its own duration.
        longest: longest time that a copy may overlap with and a buffer may wait, in ps.
    """

    def __init__(self, elapsed_ps: Ints, min_ratio: float, preferred_ratio: float, longest: float) -> None:
        # _before[t] is the time of ops 0..t-1, so that a difference of two is the time of a stretch of ops.
        self._before = np.concatenate([[0], np.cumsum(elapsed_ps)]).astype(np.float64)
        self._min_ratio = min_ratio
        self._preferred_ratio = preferred_ratio
        self._longest = longest

    def between(self, start: int, end: int) -> float:
        """Return the time in ps of the ops strictly between two ops."""
        return float(self._before[end] - self._before[start + 1]) if start < end else 0.0

    def may_stay(self, start: int, end: int) -> bool:
        """Return whether a buffer may wait in fast memory from one op to another."""
        return self._longest > self.between(start, end)

    def window(self, start: int, use: int, copy_ps: float, saved_ps: float) -> Window | None:
        """Return the starts for a prefetch, the preferred one first; None if there is none.

        Args:
            start: op after which the copy may start.
            use: op that needs the data.
            copy_ps: duration of the copy.
            saved_ps: time that the op saves with it.
        """
        # overlap[i] is the time that a copy from start + i overlaps with: it falls with i, so both sets of starts that
        # `enough` and `not_long` hold are contiguous, the one at the front and the other at the end.
        overlap = self._before[use] - self._before[start + 1 : use + 1]
        enough = np.flatnonzero(self._min_ratio * copy_ps <= overlap + saved_ps)
        not_long = np.flatnonzero(overlap <= self._longest)
        if len(enough) == 0 or len(not_long) == 0 or not_long[0] > enough[-1]:
            return None
        earliest, latest = not_long[0], enough[-1]
        overlap = overlap[earliest : latest + 1]
        preferred = np.abs(self._preferred_ratio * copy_ps - overlap).argmin()
        return Window(int(start + latest), start + earliest + try_order(overlap, preferred))

    def eviction_end(self, start: int, deadline: int, copy_ps: float, retry: int) -> int:
        """Return the op before which an eviction that starts after `start` should be done, at most `deadline`."""
        wanted = (1 + EVICTION_RETRY_MULTIPLIER * retry) * self._preferred_ratio * copy_ps
        end = np.searchsorted(self._before, self._before[start + 1] + wanted)
        return int(min(max(end, start + 1), deadline))


@kernel
def try_order(overlap: NDArray[np.float64], preferred: int):
    """Return indices of `overlap` (falling) from the preferred one outwards, earlier and later ones in turn.

    Once the later ones are exhausted, each earlier one must add at least a `EARLIER_STEPS`-th of the whole overlap,
    which saves time where ops are many and short.
    """
    order = np.empty(len(overlap), dtype=np.int64)
    count, earlier, later = 0, preferred, preferred + 1
    # Invariant: order[:count] are tried, `earlier` and `later` are the next ones on either side.
    while earlier >= 0 or later < len(overlap):
        if earlier >= 0:
            order[count] = earlier
            count += 1
            least = overlap[earlier] + overlap[0] / EARLIER_STEPS if later == len(overlap) else 0.0
            earlier -= 1
            # Skip starts that add too little; `least` is 0 as long as there are later ones.
            while earlier >= 0 and overlap[earlier] < least:
                earlier -= 1
        if later < len(overlap):
            order[count] = later
            count += 1
            later += 1
    return order[:count]
