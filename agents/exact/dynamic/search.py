"""Branch and bound over the program of `model`, then over windows of it; plans on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from agents.exact.dynamic.addresses import with_addresses
from agents.exact.dynamic.decisions import Bools, Decisions
from agents.exact.dynamic.extract import broken, read_schedule, settled
from agents.exact.dynamic.model import Model, Whole, build
from agents.exact.highs import Answer, Floats, LinearProgram, solve
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task

ROUNDS = 12
"""Solutions of one question that may turn out broken before it is given up."""
FINE = 1e-6
"""Relative gap that the solver is asked for in windows and where all decisions are fixed."""


class Found(NamedTuple):
    """A solution that is a schedule: of this program, with these values and this latency in its units."""

    model: Model
    values: Floats
    latency: float


class Clock(NamedTuple):
    """What bounds a search from outside.

    Attributes:
        seconds_left: until it has to end; None for ever.
        tell: called every now and then with the best bound so far in ps.
    """

    seconds_left: Callable[[], float | None]
    tell: Callable[[float], None]

    def within(self, seconds: float | None) -> float | None:
        """That many seconds, or what is left if that is less."""
        left = self.seconds_left()
        return seconds if left is None else left if seconds is None else min(left, seconds)

    @property
    def up(self) -> bool:
        """Whether the time is."""
        return self.seconds_left() == 0


class Search:
    """One task's programs, the best schedule and the best bound.

    Args:
        task: the problem.
        offer: takes each plan that was found.
        clock: see `Clock`.
        seed: of the packer.
        horizon: see `number_columns`.
    """

    def __init__(
        self, task: Task, offer: Callable[[MemoryPlan], None], clock: Clock, seed: int, horizon: int | None
    ) -> None:
        self.task, self.clock = task, clock
        self._offer, self._seed, self._horizon = offer, seed, horizon
        self.whole = Whole()
        self.best: Found | None = None
        self.bound_ps = 0.0

    def begin_with(self, plan: MemoryPlan) -> None:
        """Take over the decisions of a valid plan, with the best copies for them."""
        self._keep(self._complete(Decisions.of_plan(self.task, plan)))

    def branch_and_bound(self, gap: float, seconds: float | None) -> None:
        """Solve the whole, and again with what was broken made whole, until nothing is."""
        end = _Countdown(self.clock, seconds)
        for _ in range(ROUNDS):
            model = build(self.task, self.whole, self._horizon)
            answer = self._solve(model, gap, end.left())
            self.bound_ps = max(self.bound_ps, answer.bound * model.unit_ps)
            if answer.values is None:
                return
            before = len(self.whole)
            decisions = Decisions.of_values(model, answer.values)
            self._keep(self._complete(decisions))
            if self.closed(gap) or len(self.whole) == before or end.left() == 0:
                return

    def closed(self, gap: float) -> bool:
        """Whether the best schedule is within the gap of the bound."""
        return self.best is not None and self.best.latency * self.best.model.unit_ps <= self.bound_ps * (1 + gap)

    def window(self, uses: Bools, seconds: float) -> bool:
        """Decide anew at these uses, bool[U], and keep everything else; whether that is better."""
        assert self.best is not None
        decisions = Decisions.of_values(self.best.model, self.best.values)
        found = self._complete(decisions, ~uses, seconds)
        before = self.best.latency
        self._keep(found)
        return self.best.latency < before * (1 - FINE)

    def _complete(self, decisions: Decisions, fixed: Bools | None = None, seconds: float | None = None) -> Found | None:
        """The best schedule with these decisions, at all uses or at some, bool[U]; None if none is found in time."""
        end = _Countdown(self.clock, seconds)
        for _ in range(ROUNDS):
            model = build(self.task, self.whole, self._horizon)
            start = None if fixed is None else self._start(model)
            answer = solve(
                _without_early(model, decisions.fixed(model, fixed)), gap=FINE, seconds=end.left(), start=start
            )
            values = None if answer.values is None else settled(model, answer.values)
            if values is None:
                return None
            schedule = read_schedule(model, values)
            missing = broken(model, values, schedule)
            if not len(missing):
                plan = with_addresses(self.task, schedule, self._seed)
                if plan is None:
                    return None
                self._offer(plan)
                return Found(model, values, float(model.program.cost @ values))
            self.whole |= missing
            if answer.interrupted:
                raise KeyboardInterrupt
        return None

    def _solve(self, model: Model, gap: float, seconds: float | None) -> Answer:
        return solve(
            model.program,
            gap=gap,
            seconds=seconds,
            start=self._start(model),
            watch=lambda bound: self.clock.tell(max(self.bound_ps, bound * model.unit_ps)),
        )

    def _start(self, model: Model) -> Floats | None:
        """The best schedule as a solution of a program in which more is whole."""
        if self.best is None:
            return None
        fixed = Decisions.of_values(self.best.model, self.best.values).fixed(model)
        return solve(_without_early(model, fixed), gap=FINE).values

    def _keep(self, found: Found | None) -> None:
        if found is not None and (self.best is None or found.latency < self.best.latency):
            self.best = found


class _Countdown:
    """Seconds from now on, and no longer than the clock allows."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        import time

        self._clock, self._stop = clock, None if seconds is None else time.perf_counter() + seconds
        self._now = time.perf_counter

    def left(self) -> float | None:
        return self._clock.within(None if self._stop is None else max(self._stop - self._now(), 0.0))


def _without_early(model: Model, program: LinearProgram) -> LinearProgram:
    """Copies within their windows only, as a schedule needs them."""
    early = model.columns.early[model.columns.early >= 0]
    if not len(early):
        return program
    upper = program.upper.copy()
    upper[early] = 0
    return replace(program, upper=upper)
