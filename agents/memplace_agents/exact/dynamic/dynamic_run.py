"""The search for plans that move tensors: a linear bound, a short tree, annealed games, then windows and trees."""

from __future__ import annotations

from math import isfinite

import numpy as np

from memplace_agents.exact.clock import SEED, Clock
from memplace_agents.exact.dynamic.detail import AHEAD, is_tractable, most_columns
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.dynamic.dynamic_ties import DynamicTies
from memplace_agents.exact.dynamic.lp_bound import linear_bound, long_bound
from memplace_agents.exact.proving_search import Claim, ProvingSearch
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import Evaluator, GameEvaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import traffic_bound_ps

TREE_SECONDS = 150.0
"""Most seconds of branch and bound, or most work, each time; most registered games are solved in 20."""
TREE_SHARE = 0.5
"""Fraction of the time that is left for branch and bound; the rest is for windows."""
FIRST_SECONDS, FIRST_SHARE = 6.0, 0.25
"""Most seconds of branch and bound before all else, and most of the time that is left: easy games need no more. Our
choice."""
WIDE = 5e-3
"""Gap of the first plan above which windows, not the tree, find the better plans. Our choice."""
ANNEALED_DECISIONS, ANNEALED_SHARE = 5_000_000, 0.1
"""Decisions of the games that are annealed at first where the gap is wide: about five seconds, or what takes this share
of the time that is left, which is more from 50 seconds on. Our choice: in some games windows find nothing."""
DECISION_S = 1e-6
"""Seconds of a decision, for the clock; measured roughly."""
ANNEALING_SHARE, OVERRUN = 0.4, 2.0
"""Most of the time that is left for that, and multiple of a share of it at which annealing ends on slower machines."""
COLUMN_S, SHORT_SHARE = 1e-4, 0.2
"""Seconds of the linear program for each column, measured roughly; and their share in themselves and the time that is
left from which games are annealed first, for that share of the time. Our choice."""
WINDOW_SECONDS = 10.0
"""Most seconds of one window."""
TIES_SHARE, TIES_SECONDS = 0.05, 5.0
"""Fraction of the time that is kept for tie-breaks, and most seconds of it."""
SPAN = 40
"""Number of ops in a window; windows overlap by half."""


class DynamicSearch(ProvingSearch):
    """State of one run.

    Args:
        evaluator: evaluates plans and bounds the time.
        gap: relative gap at which a plan counts as optimal.
        ties: True to keep some of a time limit for `break_ties`.
        work: most work without a time limit, see `Clock`; None for as much as it finds.
    """

    def __init__(self, evaluator: Evaluator, gap: float, ties: bool, work: float | None = None) -> None:
        kept = min(TIES_SHARE * (evaluator.seconds_left or 0.0), TIES_SECONDS) if ties else 0.0
        super().__init__(evaluator, gap, Clock.of(evaluator, work, kept), traffic_bound_ps(evaluator.env.task))
        # Times of the ops of the best plan and of the linear program's answer, with the waits behind them.
        self._time_ps = self._least_ps = np.zeros(self.task.program.num_ops + 1)
        self.search = Search(self.task, self._offer, self._clock, self._report_bound)

    def break_ties(self) -> None:
        if is_tractable(self.task):
            DynamicTies(self.evaluator, self.search.detail).run()

    def run(self) -> None:
        """Solve the linear program, then run branch and bound and windows in turn as long as either helps."""
        offer_cheap_plans(self.evaluator)
        if self.closed or self._clock.up:
            return
        share = self._linear_share()
        annealed = share >= SHORT_SHARE
        if annealed:
            self._anneal(share)
        if self.closed or not is_tractable(self.task):
            return
        linear = linear_bound(self.task, self._clock, self._report_bound)
        self._least_ps = linear.time_ps
        self.search.detail |= linear.rows
        self._raise_sound(linear.bound_ps)
        if self.closed or self._clock.up:
            return
        self._begin()
        self._tree(FIRST_SECONDS, FIRST_SHARE, AHEAD)
        if self._wide and not (annealed or self._clock.up) and self._anneal(ANNEALING_SHARE):
            self._begin()
        if self._wide and not self._clock.up:
            self._raise_sound(long_bound(self.task, self._clock, self._report_bound))
        if not (self._wide or self.closed or self._clock.up):
            self._tree()
        # Branch and bound runs again only with a better plan from the windows, which prunes more. Windows double up to
        # the whole program, and end there when neither has found anything.
        span, treed_ps = SPAN, -1.0 if self._wide else self.best_ps
        while not (self.closed or self._clock.up):
            before_ps = self.best_ps
            self._windows(span)
            if treed_ps != self.best_ps and not (self.closed or self._clock.up):
                self._tree()
                treed_ps = self.best_ps
            if span >= self.task.program.num_ops and self.best_ps == before_ps:
                break
            span *= 2

    @property
    def _wide(self) -> bool:
        return self.best_ps > self.bound_ps * (1 + WIDE)

    def _linear_share(self) -> float:
        """Return the seconds of the linear program over themselves and what is left; 1 if it is not to be solved."""
        if not is_tractable(self.task):
            return 1.0
        linear_s = COLUMN_S * most_columns(self.task)
        return linear_s / (linear_s + self._clock.left)

    def _raise_sound(self, bound_ps: int) -> None:
        """Raise the bound by weak duality."""
        self._sound_ps = max(self._sound_ps, bound_ps)
        self.search.bound_ps = max(self.search.bound_ps, bound_ps)

    def _prove(self) -> None:
        """Run branch and bound from the best plan on; all of the time that is left is for it."""
        self.search.bound_ps, self.search.claim = float(self._sound_ps), Claim()
        if is_tractable(self.task):
            self._begin()
            self._tree(share=1.0)

    def _begin(self) -> None:
        """Let the search begin with the best plan."""
        assert self.evaluator.incumbent is not None
        self.search.begin_with(self.evaluator.incumbent)

    def _anneal(self, share: float) -> bool:
        """Anneal games from the best plan on, for a share of what is left; return whether that found a better one."""
        if not isinstance(self.evaluator, GameEvaluator) or not self.evaluator.remaining:
            return False
        before_ps, part = self.best_ps, self.evaluator.part(min(OVERRUN * share, 1.0))
        left = self._clock.left / DECISION_S
        decisions: float = ANNEALED_DECISIONS
        if isfinite(left):
            decisions = min(max(decisions, ANNEALED_SHARE * left), share * left)
        part.budget = max(min(self.evaluator.remaining, int(decisions / self.task.program.num_uses)), 1)
        try:
            GameLocalSearch().run(part, SEED)
        finally:
            self._clock.spend(DECISION_S * part.evaluations * self.task.program.num_uses)
        return self.best_ps < before_ps

    def _tree(self, seconds: float = TREE_SECONDS, share: float = TREE_SHARE, horizon: int | None = None) -> None:
        """Run branch and bound on the whole program for these seconds, or this share of what is left."""
        self.search.presolve = self.presolve
        try:
            self.search.branch_and_bound(self.gap / 2, self._clock.part(seconds, share), horizon)
        finally:
            self._claim = self.search.claim

    def _windows(self, span: int) -> None:
        """Decide windows again, those first that the linear program promises most of, until none gains.

        A window is tried again once a window that overlaps it has gained. What it promises is the time that its ops
        take in the best plan above what they take in the linear program.
        """
        ops, op_of = self.task.program.num_ops, self.task.program.use_op
        firsts = np.arange(0, max(ops - span // 2, 1), span // 2)
        waiting = np.ones(len(firsts), dtype=np.bool_)
        while waiting.any() and not (self.closed or self._clock.up or self.search.best is None):
            promise = np.cumsum(np.append(0, self._time_ps - self._least_ps))
            promised = promise[np.minimum(firsts + span, ops + 1)] - promise[firsts]
            first = firsts[np.where(waiting, promised, -np.inf).argmax()]
            waiting[firsts == first] = False
            if self.search.window((op_of >= first) & (op_of < first + span), self._clock.part(WINDOW_SECONDS)):
                waiting |= (abs(firsts - first) < span) & (firsts != first)

    def _offer(self, plan: MemoryPlan) -> int:
        report = self.evaluator.offer(plan)
        if report.latency_ps <= self.best_ps:
            waits = np.concatenate([report.stall_ps[1:], [0, report.tail_ps]])
            self._time_ps = np.append(report.op_time_ps, 0) + waits
        return report.latency_ps
