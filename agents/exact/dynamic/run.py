"""Bound, tree, windows: the best plan of any kind, for as long as there is time."""

from __future__ import annotations

from math import ceil

import numpy as np

from agents.evaluator import Evaluator, GameEvaluator
from agents.exact.dynamic.bound import linear_bound_ps
from agents.exact.dynamic.detail import is_tractable
from agents.exact.dynamic.search import Clock, Search
from agents.solution import Verdict
from agents.xla_msa import PUBLIC_SETS, default_plan
from memplace_env.compiler import all_backing
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import traffic_bound_ps
from memplace_env.units import PS

TREE_SECONDS = 150.0
"""For branch and bound at most, each time; most registered games are solved in 20."""
TREE_SHARE = 0.5
"""Of what is left of a time limit, for branch and bound; the rest is for windows."""
WINDOW_SECONDS = 20.0
"""For one window at most."""
SPAN = 60
"""Ops in a window; they overlap by half."""


class DynamicSearch:
    """State of one run.

    Args:
        evaluator: takes the plans and knows the time; its incumbent is where the search begins.
        gap: relative gap at which a plan counts as optimal.
        cheap: whether to look first at what costs next to nothing in a game.
        seed: of the packer.
    """

    def __init__(self, evaluator: Evaluator, gap: float, cheap: bool, seed: int) -> None:
        self.evaluator, self.task, self.gap = evaluator, evaluator.env.task, gap
        self._proven_ps: float = traffic_bound_ps(self.task)
        self._cheap = cheap
        self._clock = Clock(lambda: evaluator.seconds_left, self._tell)
        self._best: MemoryPlan | None = None
        self._best_ps = np.inf
        self.search = Search(self.task, self._offer, self._clock, seed)

    @property
    def optimal(self) -> bool:
        """Whether the best plan is proven to be within the gap."""
        return self._best_ps <= self._bound_ps * (1 + self.gap)

    def verdict(self) -> Verdict:
        """What has been proven so far."""
        return Verdict("optimal" if self.optimal else "feasible", self._bound_ps * PS)

    @property
    def _bound_ps(self) -> int:
        return ceil(max(self._proven_ps, self.search.bound_ps))

    def run(self) -> None:
        """What is known, the linear program, then branch and bound and windows in turn as long as either helps."""
        best = min((self._offer(plan), rank, plan) for rank, plan in enumerate(self._known_plans()))[2]
        if self.optimal or not is_tractable(self.task):
            return
        self._proven_ps = max(self._proven_ps, linear_bound_ps(self.task, self._clock.within(None), self._tell))
        if self.optimal or self._clock.up:
            return
        self.search.begin_with(best)
        span, known = SPAN, -1.0
        while not (self.optimal or self._clock.up):
            if known != self._best_ps:
                self._tree()
                known = self._best_ps
            if not self.optimal and not self._windows(span):
                if span >= self.task.program.num_ops:
                    break
                span *= 2

    def _known_plans(self) -> list[MemoryPlan]:
        """Where the search begins: what the search before found, and cheap games if wanted; never nothing."""
        incumbent, problem = self.evaluator.incumbent, self.evaluator.env.problem
        plans = [] if incumbent is None else [incumbent]
        if self._cheap and isinstance(self.evaluator, GameEvaluator):
            states = problem.new_states(1)
            problem.finish_greedily(states)
            plans += [problem.plan(states[0]), *(default_plan(self.task, each.options) for each in PUBLIC_SETS)]
        return plans or [all_backing(self.task)]

    def _tree(self) -> None:
        """Branch and bound on the whole."""
        left = self._clock.seconds_left()
        seconds = TREE_SECONDS if left is None else min(TREE_SECONDS, left * TREE_SHARE)
        self.search.branch_and_bound(self.gap / 2, seconds)

    def _windows(self, span: int) -> bool:
        """Slide a window over the ops; whether that found a better plan."""
        ops, op_of, gained = self.task.program.num_ops, self.task.program.use_op, False
        for first in range(0, max(ops - span // 2, 1), span // 2):
            if self.optimal or self._clock.up or self.search.best is None:
                break
            gained |= self.search.window((op_of >= first) & (op_of < first + span), WINDOW_SECONDS)
        return gained

    def _offer(self, plan: MemoryPlan) -> int:
        latency_ps = self.evaluator.offer(plan).latency_ps
        if latency_ps < self._best_ps:
            self._best, self._best_ps = plan, latency_ps
        return latency_ps

    def _tell(self, bound_ps: float) -> None:
        self.evaluator.prove(max(bound_ps, self._bound_ps) * PS)
