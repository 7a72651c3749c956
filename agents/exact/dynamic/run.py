"""The exact agent on a game: bound, tree, windows, for as long as there is time."""

from __future__ import annotations

import numpy as np

from agents.evaluator import GameEvaluator
from agents.exact.dynamic.bound import keep_bound_ps, known_bound_ps, linear_bound_ps
from agents.exact.dynamic.search import Clock, Search
from agents.solution import Verdict
from agents.xla_msa import PUBLIC_SETS, default_plan
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import traffic_bound_ps
from memplace_env.units import PS

TREE_SECONDS = 150.0
"""For branch and bound at most; most registered games are solved in 20."""
TREE_SHARE = 0.5
"""Of what is left of a time limit, for branch and bound; the rest is for windows."""
WINDOW_SECONDS = 20.0
"""For one window at most."""
SPAN = 60
"""Ops in the first windows; they overlap by half."""


class GameSearch:
    """State of one run.

    Args:
        evaluator: takes the plans and knows the time.
        gap: relative gap at which a plan counts as optimal.
        cheap: whether to look first at what costs next to nothing.
        seed: of the packer.
    """

    def __init__(self, evaluator: GameEvaluator, gap: float, cheap: bool, seed: int) -> None:
        self.evaluator, self.task, self.gap = evaluator, evaluator.env.task, gap
        keep_bound_ps(self.task, traffic_bound_ps(self.task))
        self._cheap = cheap
        self._clock = Clock(lambda: evaluator.seconds_left, self._tell)
        self._best: MemoryPlan | None = None
        self._best_ps = np.inf
        self.search = Search(self.task, self._offer, self._clock, seed)

    @property
    def optimal(self) -> bool:
        """Whether the best plan is proven to be within the gap."""
        return self._best_ps <= known_bound_ps(self.task) * (1 + self.gap)

    def verdict(self) -> Verdict:
        """What has been proven so far."""
        return Verdict("optimal" if self.optimal else "feasible", known_bound_ps(self.task) * PS)

    def run(self) -> None:
        """Cheap plans, linear program, branch and bound, windows; stops as soon as the best plan is proven."""
        for plan in self._known_plans():
            self._offer(plan)
        linear_bound_ps(self.task, self._clock.within(None), self._tell)
        if self.optimal or self._clock.up:
            return
        if self._best is not None:
            self.search.begin_with(self._best)
        left = self._clock.seconds_left()
        seconds = TREE_SECONDS if left is None else min(TREE_SECONDS, left * TREE_SHARE)
        self.search.branch_and_bound(self.gap / 2, seconds)
        keep_bound_ps(self.task, self.search.bound_ps)
        self._windows()

    def _known_plans(self) -> list[MemoryPlan]:
        if not self._cheap:
            return []
        states = self.evaluator.env.problem.new_states(1)
        self.evaluator.env.problem.finish_greedily(states)
        greedy = self.evaluator.env.problem.plan(states[0])
        return [*(default_plan(self.task, each.options) for each in PUBLIC_SETS), greedy]

    def _windows(self) -> None:
        """Slide a window over the ops while that helps, then one twice as wide."""
        ops, op_of, span = self.task.program.num_ops, self.task.program.use_op, SPAN
        while not self.optimal and self.search.best is not None and span < 2 * ops:
            gained = False
            for first in range(0, max(ops - span // 2, 1), span // 2):
                if self.optimal or self._clock.up:
                    return
                gained |= self.search.window((op_of >= first) & (op_of < first + span), WINDOW_SECONDS)
            span = span if gained else 2 * span

    def _offer(self, plan: MemoryPlan) -> None:
        latency_ps = self.evaluator.offer(plan).latency_ps
        if latency_ps < self._best_ps:
            self._best, self._best_ps = plan, latency_ps

    def _tell(self, bound: float) -> None:
        del bound
