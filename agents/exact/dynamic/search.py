"""Branch and bound over the program of `model`, then over windows of it; plans on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from agents.exact.dynamic.addresses import Crowd, with_addresses
from agents.exact.dynamic.decisions import Bools, Decisions
from agents.exact.dynamic.detail import Detail, farthest, lengths_of_copies
from agents.exact.dynamic.extract import begun_early, broken, read_schedule, settled
from agents.exact.dynamic.model import Model, build
from agents.exact.highs import Floats, LinearProgram, heard, solve
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints

ROUNDS = 12
"""Solutions of one question that may turn out broken before it is given up."""
ROOM = 0.01
"""Share of a level that is left free each time that blocks find no addresses there."""
CROWD_SECONDS = 20.0
"""To decide anew there."""
FINE = 1e-6
"""Relative gap that the solver is asked for in windows and where all decisions are fixed."""


class Found(NamedTuple):
    """Decisions of a plan that was offered, and its latency."""

    decisions: Decisions
    latency_ps: int


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
    """One task's programs, the best plan and the best bound.

    Args:
        task: the problem.
        offer: takes each plan that is found, and returns its latency in ps.
        clock: see `Clock`.
        seed: of the packer.
    """

    def __init__(self, task: Task, offer: Callable[[MemoryPlan], int], clock: Clock, seed: int) -> None:
        self.task, self.clock = task, clock
        self._offer, self._seed = offer, seed
        self.detail = Detail()
        self.best: Found | None = None
        self.bound_ps = 0.0

    def begin_with(self, plan: MemoryPlan) -> None:
        """Take over the decisions of a valid plan, with the best copies for them."""
        decisions = Decisions.of_plan(self.task, plan)
        self.best = Found(decisions, self._offer(plan))
        self.detail |= lengths_of_copies(self.task, plan)
        self._complete(decisions)

    def branch_and_bound(self, gap: float, seconds: float | None) -> None:
        """Solve the whole, and again with what was broken followed in detail, until nothing is."""
        end = _Countdown(self.clock, seconds)
        horizon = farthest(self.task)
        for _ in range(ROUNDS):
            model = build(self.task, self.detail | Detail(horizon=horizon))
            answer = solve(
                model.program,
                gap=gap,
                seconds=end.left(),
                start=self._start(model, end.left()),
                watch=partial(self._tell, model.unit_ps),
            )
            self.bound_ps = max(self.bound_ps, answer.bound * model.unit_ps)
            if answer.values is None:
                break
            before = len(self.detail)
            self.detail |= begun_early(model, answer.values)
            self._complete(Decisions.of_values(model, answer.values))
            if answer.interrupted:
                raise KeyboardInterrupt
            if self.closed(gap) or len(self.detail) == before or end.left() == 0:
                break

    def closed(self, gap: float) -> bool:
        """Whether the best plan is within the gap of the bound."""
        return self.best is not None and self.best.latency_ps <= self.bound_ps * (1 + gap)

    def window(self, uses: Bools, seconds: float) -> bool:
        """Decide anew at these uses, bool[U], and keep everything else; whether that is better."""
        assert self.best is not None
        before = self.best
        self._complete(before.decisions, ~uses, seconds)
        return self.best.latency_ps < before.latency_ps

    def _complete(self, decisions: Decisions, fixed: Bools | None = None, seconds: float | None = None) -> None:
        """Offer the best plan with these decisions, at all uses or at some, bool[U], if one is found in time.

        Where blocks find no addresses, some room stays free, and what is used there is decided anew.
        """
        end = _Countdown(self.clock, seconds)
        free_bytes = np.zeros((self.task.program.num_ops + 1, self.task.backing), dtype=np.int64)
        for _ in range(ROUNDS):
            model = build(self.task, self.detail, free_bytes)
            answer = heard(
                solve(
                    _without_early(model, decisions.fixed(model, fixed)),
                    gap=FINE,
                    seconds=end.left(),
                    start=None if fixed is None else self._start(model, end.left()),
                    watch=partial(self._tell, 0.0),
                )
            )
            values = None if answer.values is None else settled(model, answer.values, end.left())
            if values is None:
                break
            schedule = read_schedule(model, values)
            missing = broken(model, values, schedule)
            self.detail |= missing
            if len(missing) and end.left() != 0:
                continue
            if len(missing):
                break
            plan = with_addresses(self.task, schedule, self._seed)
            if isinstance(plan, MemoryPlan):
                self._keep(Decisions.of_values(model, values), plan)
                break
            fixed = self._make_room(plan, free_bytes, fixed)
            if seconds is None:
                seconds = CROWD_SECONDS
                end = _Countdown(self.clock, seconds)

    def _make_room(self, crowds: list[Crowd], free_bytes: Ints, fixed: Bools | None) -> Bools:
        """Leave more room free in crowds, and return the uses that stay as they are."""
        program = self.task.program
        fixed = np.ones(program.num_uses, dtype=bool) if fixed is None else fixed.copy()
        for level, first, last in crowds:
            capacity = self.task.accelerator.levels[level].capacity_bytes
            free_bytes[first : last + 1, level] += int(capacity * ROOM)
            fixed &= (program.use_op < first) | (program.use_op > last)
        return fixed

    def _keep(self, decisions: Decisions, plan: MemoryPlan) -> None:
        latency_ps = self._offer(plan)
        if self.best is None or latency_ps < self.best.latency_ps:
            self.best = Found(decisions, latency_ps)

    def _start(self, model: Model, seconds: float | None) -> Floats | None:
        """The best plan as a solution of the program."""
        if self.best is None:
            return None
        fixed = self.best.decisions.fixed(model)
        return heard(solve(_without_early(model, fixed), gap=FINE, seconds=seconds)).values

    def _tell(self, unit_ps: float, bound: float) -> None:
        self.clock.tell(max(self.bound_ps, bound * unit_ps))


class _Countdown:
    """Seconds from now on, and no longer than the clock allows."""

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock, self._stop = clock, None if seconds is None else time.perf_counter() + seconds

    def left(self) -> float | None:
        return self._clock.within(None if self._stop is None else max(self._stop - time.perf_counter(), 0.0))


def _without_early(model: Model, program: LinearProgram) -> LinearProgram:
    """Copies within their windows only, as a schedule needs them."""
    early = model.columns.early[model.columns.early >= 0]
    if not len(early):
        return program
    upper = program.upper.copy()
    upper[early] = 0
    return replace(program, upper=upper)
