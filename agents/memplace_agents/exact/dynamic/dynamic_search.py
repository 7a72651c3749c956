"""Branch and bound over the program of `dynamic_model` and over windows of it, and plans from its solutions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.chains import pack_chains
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.decisions import Bools, Decisions
from memplace_agents.exact.dynamic.detail import Detail, farthest, lengths_of_copies
from memplace_agents.exact.dynamic.dynamic_model import DynamicModel, build, only_near, without_early
from memplace_agents.exact.dynamic.extract import copies_begun_early, missing_detail, read_schedule, settled
from memplace_agents.exact.dynamic.plan_values import values_of_plan
from memplace_agents.exact.highs import Floats, OnBound, solve, uninterrupted
from memplace_agents.exact.proving_search import Claim
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task

ROUNDS = 12
"""Most solutions of one program that may turn out to be no plan before it is given up."""
BEGIN_SECONDS, BEGIN_SHARE = 3.0, 0.1
"""Most seconds, or work, for the best copies of a plan with which the search begins, and most of what is left. Our
choice."""
SOLUTION_SHARE = 0.2
"""Most of what is left for a plan from a solution of the whole program. Our choice."""
DECISIONS_SHARE = 0.7
"""Most of what is left for the decisions; the rest is for the best copies for them, and for addresses. Our choice."""
FINE = 1e-6
"""Relative gap at which the solver stops in windows and where all decisions are fixed."""
WINDOW_GAP = 0.003
"""The same in windows as a fraction of the best plan's gap, if that is more. Our choice."""


class OfferedPlan(NamedTuple):
    """A plan that was offered, its decisions, and its latency."""

    plan: MemoryPlan
    decisions: Decisions
    latency_ps: int


class Search:
    """The programs of one task, the best plan, the best bound, and what branch and bound claims.

    Args:
        task: the problem.
        offer: evaluates a plan and returns its latency in ps.
        clock: ends the search.
        on_bound: called every now and then with the best bound so far in ps.
    """

    def __init__(self, task: Task, offer: Callable[[MemoryPlan], int], clock: Clock, on_bound: OnBound) -> None:
        self.task, self.clock, self._on_bound = task, clock, on_bound
        self._offer = offer
        self.detail = Detail()
        self.best: OfferedPlan | None = None
        self.bound_ps, self.claim, self.presolve = 0.0, Claim(), True

    def begin_with(self, plan: MemoryPlan) -> None:
        """Begin with the decisions of a valid plan, and offer the plan with the best copies for them."""
        decisions = Decisions.of_plan(self.task, plan)
        self.best = OfferedPlan(plan, decisions, self._offer(plan))
        self.detail |= lengths_of_copies(self.task, plan)
        self.complete(decisions, self.clock.part(BEGIN_SECONDS, BEGIN_SHARE))

    def branch_and_bound(self, gap: float, clock: Clock, horizon: int | None = None) -> None:
        """Solve the whole program, again with longer windows for copies that begin early, until none needs one.

        Args:
            gap: relative gap at which a plan counts as optimal.
            clock: ends it.
            horizon: ops before its use in which each copy is followed at first; None for as many as are affordable.
        """
        horizon = farthest(self.task) if horizon is None else horizon
        for _ in range(ROUNDS):
            model = build(self.task, self.detail | Detail(horizon=horizon))
            answer = solve(
                model.program,
                gap=gap,
                clock=clock,
                start=None if self.best is None else _solution(model, values_of_plan(model, self.best.plan)),
                on_bound=partial(self._report_bound, model.unit_ps),
                presolve=self.presolve,
            )
            if answer.bound * model.unit_ps > self.bound_ps:
                self.bound_ps = answer.bound * model.unit_ps
                self.claim = Claim.of(model.program, answer.bound, model.unit_ps)
            if answer.values is None:
                uninterrupted(answer)
                break
            before = len(self.detail)
            self.detail |= copies_begun_early(model, answer.values)
            self.complete(Decisions.of_values(model, answer.values), self.clock.part(np.inf, SOLUTION_SHARE))
            uninterrupted(answer)
            if self.closed(gap) or len(self.detail) == before or clock.up:
                break

    def closed(self, gap: float) -> bool:
        """Return whether the best plan is within the gap of the bound."""
        return self.best is not None and self.best.latency_ps <= self.bound_ps * (1 + gap)

    @property
    def _gap(self) -> float:
        """Gap of the best plan; 0 before there are a plan and a bound."""
        return 0.0 if self.best is None or not self.bound_ps else self.best.latency_ps / self.bound_ps - 1

    def window(self, uses: Bools, clock: Clock) -> bool:
        """Decide again at these uses, bool[U], with all others fixed; return whether the best plan became faster."""
        assert self.best is not None
        before = self.best
        self.complete(before.decisions, clock, ~uses)
        return self.best.latency_ps < before.latency_ps

    def complete(self, decisions: Decisions, clock: Clock, fixed: Bools | None = None) -> None:
        """Offer the best plan with these decisions, at all uses or at `fixed`, bool[U], if one is found in time."""
        for _ in range(ROUNDS):
            model = build(self.task, self.detail)
            program = without_early(model, decisions.fixed(model, fixed))
            start = None
            if fixed is not None and self.best is not None:
                planned = values_of_plan(model, self.best.plan)
                program = only_near(model, program, planned, ~fixed)
                start = _solution(model, planned)
            answer = uninterrupted(
                solve(
                    program,
                    gap=FINE if fixed is None else max(FINE, WINDOW_GAP * self._gap),
                    clock=clock.part(np.inf, DECISIONS_SHARE),
                    start=start,
                    on_bound=partial(self._report_bound, 0.0),
                    certify=False,
                )
            )
            if answer.values is None or (fixed is not None and not self._is_faster(model, answer.values)):
                break
            values = settled(model, program, answer.values, clock)
            if values is None:
                break
            schedule = read_schedule(model, values)
            missing = missing_detail(model, values, schedule)
            self.detail |= missing
            if len(missing):
                if clock.up:
                    break
                continue
            if schedule.repeats:
                break
            offset, conflicts, _ = pack_chains(self.task, schedule.blocks, clock, explain=False)
            if not conflicts:
                self._keep(Decisions.of_values(model, values), schedule.plan(self.task, offset))
            break

    def _keep(self, decisions: Decisions, plan: MemoryPlan) -> None:
        latency_ps = self._offer(plan)
        if self.best is None or latency_ps < self.best.latency_ps:
            self.best = OfferedPlan(plan, decisions, latency_ps)

    def _is_faster(self, model: DynamicModel, values: Floats) -> bool:
        """Return whether a solution promises a plan that is faster than the best one."""
        return self.best is None or round(float(model.program.cost @ values) * model.unit_ps) < self.best.latency_ps

    def _report_bound(self, unit_ps: float, bound: float) -> None:
        self._on_bound(max(self.bound_ps, bound * unit_ps))


def _solution(model: DynamicModel, values: Floats) -> Floats | None:
    """Return what a plan does if it is a solution of the program."""
    return values if model.program.holds(values) else None
