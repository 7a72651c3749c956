"""Tie-breaks: of all plans as fast as the best, the one that keeps the backing memory's port least busy.

Latency is a sum of maxima, so that traffic beside a longer computation costs none, and optima are seldom unique. The
second objective never trades latency: a second program has the first one's rows and a bound on times, in picoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.highs import Floats, LinearProgram, MipResult, solve, uninterrupted
from memplace_agents.search.evaluator import Evaluator

ROUNDING_PS = 0.5
"""Picoseconds that a time may seem to exceed its bound, far above `highs.FINEST`; times are whole picoseconds."""
GAP, WHOLE_GAP = 1e-5, 0.01
"""Relative gaps of port time at which the small program and that of the whole end: of the latter, most time would go
into proving the last percent, and hardly any plan has gained by that. Our choice."""
CHECKS, MOST_CHECKS, CHECKED_COLUMNS = 2, 12, 10_000
"""Work of one second program, see `highs.solve`: checks at least and at most, and columns that all further checks look
at. With it the second search takes at most half of the first one's time on most registered ids. Our choice."""
TIME_SHARE, LEAST_SECONDS, WORK = 0.5, 10.0, 10.0
"""Most seconds of the second search under a time limit: a fraction of those of the first, ten at least; and its work
without one. Guards: checks end it before."""


class Remaining(NamedTuple):
    """Budget of a second search.

    Attributes:
        clock: its time.
        report: called every now and then, so that an interrupt takes effect.
    """

    clock: Clock
    report: Callable[[], None]

    @classmethod
    def of(cls, evaluator: Evaluator) -> Remaining:
        """Return what is left after the first search that this evaluator counted."""
        clock = Clock.of(evaluator, WORK)
        if evaluator.seconds_left is not None:
            clock = clock.part(max(evaluator.seconds * TIME_SHARE, LEAST_SECONDS))
        return cls(clock, partial(evaluator.prove, 0.0))

    def solve(self, program: LinearProgram, start: Floats, whole: bool) -> MipResult:
        """Minimise the port time from a solution on; `whole` for the program of the whole.

        Raises:
            KeyboardInterrupt: if the solver was interrupted.
        """
        answer = solve(
            program,
            gap=WHOLE_GAP if whole else GAP,
            clock=self.clock,
            checks=min(CHECKS + CHECKED_COLUMNS // len(program.cost), MOST_CHECKS),
            start=start,
            on_bound=lambda _: self.report(),
            tight_tolerance=True,
        )
        return uninterrupted(answer)


def saves(program: LinearProgram, values: Floats, port: float) -> bool:
    """Return whether a solution has less port time than a plan, in units of the program."""
    return float(program.cost @ values) + program.offset < port * (1 - GAP)
