"""The clock of an exact search: seconds if its caller limits them, else work, which no other program slows down."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memplace_agents.search.evaluator import Evaluator
from memplace_env._lib.logger import LOGGER

GUARD, LEAST_GUARD = 10.0, 60.0
"""Seconds for each second of work after which a search that work limits ends in any case, and the fewest. Our
choice."""
SEED = 0
"""Seed of all randomness of an exact search, whatever seed it gets: its answer is no sample, so one run is enough."""


class _Meter:
    """Meter of a search: its seconds, or the work that it has counted.

    Args:
        evaluator: knows the seconds.
        most_seconds: seconds at which the search ends, though it has work left; None to measure seconds, not work.
    """

    def __init__(self, evaluator: Evaluator, most_seconds: float | None) -> None:
        self._evaluator, self._most_seconds = evaluator, most_seconds
        self._ended = False
        self.work = 0.0

    @property
    def counts_work(self) -> bool:
        return self._most_seconds is not None

    @property
    def now(self) -> float:
        return self.work if self.counts_work else self._evaluator.seconds

    @property
    def seconds_left(self) -> float:
        if self._most_seconds is None:
            return np.inf
        left = max(self._most_seconds - self._evaluator.seconds, 0.0)
        if left == 0 and not self._ended:
            self._ended = True
            LOGGER.warning(
                "The exact search ended after %.0f s with work left, as this machine is slow or busy: another run may "
                "find another plan. Pass a time limit to choose the seconds.",
                self._most_seconds,
            )
        return left


@dataclass(frozen=True)
class Clock:
    """The time that is left for a search or a part of it.

    Work is given in seconds that it takes on one core of the machine of our measurements, estimated from what solver
    and packer count. So a search that work limits ends at the same place on every machine, however busy it is.
    """

    meter: _Meter
    stop: float = np.inf

    @classmethod
    def of(cls, evaluator: Evaluator, work: float | None = None, kept: float = 0.0) -> Clock:
        """Return the clock of a search.

        Args:
            evaluator: its time limit is that of the search, if it has one.
            work: most work without a time limit; None for as much as the search finds.
            kept: seconds of the time limit that are left for what follows.
        """
        seconds = evaluator.seconds_left
        if seconds is not None:
            return cls(_Meter(evaluator, None), evaluator.seconds + max(seconds - kept, 0.0))
        if work is None:
            return cls(_Meter(evaluator, np.inf))
        return cls(_Meter(evaluator, evaluator.seconds + max(GUARD * work, LEAST_GUARD)), work)

    @property
    def left(self) -> float:
        """Seconds or work left; infinite without a limit."""
        return max(self.stop - self.meter.now, 0.0) if self.meter.seconds_left > 0 else 0.0

    @property
    def up(self) -> bool:
        """True once nothing is left."""
        return self.left == 0

    @property
    def seconds_left(self) -> float:
        """Seconds after which a solver is to end whatever it has done."""
        return self.meter.seconds_left if self.meter.counts_work else self.left

    @property
    def work_left(self) -> float:
        """Work after which a solver is to end; infinite if seconds limit the search."""
        return self.left if self.meter.counts_work else np.inf

    def part(self, seconds: float, share: float = 1.0) -> Clock:
        """Return a clock of so many seconds or so much work from now on, and at most a share of what is left."""
        return Clock(self.meter, self.meter.now + min(seconds, share * self.left))

    def spend(self, work: float) -> None:
        """Count work."""
        self.meter.work += work
