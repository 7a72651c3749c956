"""When copies should run: XLA's prefetch interval picker that goes by cost analysis.

Times are ops; a copy from s to e overlaps with the ops strictly between. It always reckons with the op times that
everything in the backing memory gives, and is never told of what has been decided since.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.kernel import kernel
from memplace_env.workload.program import Ints

EARLIER_STEPS = 100
"""XLA's kNumExploredDecreasingIntervals."""
EVICTION_RETRY_MULTIPLIER = 2.0
"""XLA's kEvictionRetryMultiplier."""


class Window(NamedTuple):
    """Where a copy may start: the latest op after which it still gets its least overlap, and all starts to try."""

    latest: int
    starts: Ints


class IntervalPicker:
    """Chooses the intervals of copies.

    Args:
        elapsed_ps: int64[T], op times with everything in the backing memory.
        min_ratio, preferred_ratio: overlap that a copy must have and should have, in units of its own duration.
        longest: the most that a copy may overlap with and a buffer may wait, in the unit of `elapsed_ps`.
    """

    def __init__(self, elapsed_ps: Ints, min_ratio: float, preferred_ratio: float, longest: float) -> None:
        self._before = np.concatenate([[0], np.cumsum(elapsed_ps)]).astype(np.float64)
        self._min_ratio = min_ratio
        self._preferred_ratio = preferred_ratio
        self._longest = longest

    def between(self, start: int, end: int) -> float:
        """Time that the ops strictly between two take."""
        return float(self._before[end] - self._before[start + 1]) if start < end else 0.0

    def may_stay(self, start: int, end: int) -> bool:
        """Whether a buffer may wait in fast memory from one op to another."""
        return self._longest > self.between(start, end)

    def window(self, start: int, use: int, copy_ps: float, saved_ps: float) -> Window | None:
        """Starts for a prefetch, the most wanted first.

        Args:
            start: the copy may start after this op.
            use: the op that waits for it.
            copy_ps: what it takes.
            saved_ps: what the op gains from it.
        """
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
        """The op before which a copy back that starts after `start` should be done, at most `deadline`."""
        wanted = (1 + EVICTION_RETRY_MULTIPLIER * retry) * self._preferred_ratio * copy_ps
        end = np.searchsorted(self._before, self._before[start + 1] + wanted)
        return int(min(max(end, start + 1), deadline))


@kernel
def try_order(overlap: NDArray[np.float64], preferred: int):
    """Indices of `overlap` (falling) from the preferred one outwards, later and earlier in turn.

    Once the later ones are exhausted, each earlier one must add a share of the whole overlap: it saves time where
    ops are many and short.
    """
    order = np.empty(len(overlap), dtype=np.int64)
    count, earlier, later = 0, preferred, preferred + 1
    while earlier >= 0 or later < len(overlap):
        if earlier >= 0:
            order[count] = earlier
            count += 1
            least = overlap[earlier] + overlap[0] / EARLIER_STEPS if later == len(overlap) else 0.0
            earlier -= 1
            while earlier >= 0 and overlap[earlier] < least:
                earlier -= 1
        if later < len(overlap):
            order[count] = later
            count += 1
            later += 1
    return order[:count]
