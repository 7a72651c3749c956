"""Rounds of linear program, addresses and cuts, for the best levels that have addresses."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.detail import Detail, is_tractable
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.highs import CAPACITY, relax
from memplace_agents.exact.proving_search import Claim, ProvingSearch
from memplace_agents.exact.static.cuts import Cut, cut, is_certain
from memplace_agents.exact.static.level_moves import affordable, descend, without_useless_tensors
from memplace_agents.exact.static.static_addresses import placed
from memplace_agents.exact.static.static_model import StaticModel, build, is_large
from memplace_agents.exact.static.static_solve import levels_of, solve_model
from memplace_agents.exact.static.static_ties import StaticTies
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env._lib.threads import cached_property
from memplace_env.placement.addresses.address_search import Conflict
from memplace_env.placement.compiler import at_home, place_levels
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.placing_order import schedule_of
from memplace_env.program.program import Ints

SOLVER_SHARE = 0.9
"""Fraction of the remaining time for the linear program, so that some is left to make a plan of its answer; of what is
left then the same fraction for single moves, so that some is left for tie-breaks."""
HELD_SHARE, HELD_SECONDS = 0.6, 30.0
"""Fraction of the remaining time for the program in which copies take time, and most seconds, or work, of it.
Our choice."""
GUESSES = 20
"""Most rounds with a cut that is not proven: they find plans but no longer raise the bound."""


class StaticSearch(ProvingSearch):
    """State of one run. It begins with the plans of all rules.

    Args:
        evaluator: evaluates plans and bounds the time.
        mip_gap: relative gap at which a plan counts as optimal.
        work: most work without a time limit, see `Clock`; None for as much as it finds.
    """

    def __init__(self, evaluator: OneShotEvaluator, mip_gap: float, work: float | None = None) -> None:
        problem = evaluator.env.problem
        super().__init__(evaluator, mip_gap, Clock.of(evaluator, work), problem.native_report.traffic_bound_ps)
        self.evaluator: OneShotEvaluator = evaluator
        offer_cheap_plans(evaluator)
        self.level: Ints | None = None
        self.cuts = list[Cut]()

    @cached_property
    def model(self) -> StaticModel:
        """The linear program without cuts."""
        return build(self.task)

    def run(self) -> None:
        """Run the rounds, then improve what is not proven optimal: by the program of copies, and by single moves."""
        self._prove()
        if not self.closed and self.evaluator.remaining > 1:
            self._improve()

    def break_ties(self) -> None:
        StaticTies(self.evaluator, self.model, self.cuts).run()

    def _prove(self) -> None:
        """Run the rounds, then the program of copies where weights are streamed."""
        self.cuts.clear()
        if is_large(self.model):
            self._relax()
            return
        self._rounds()
        if not (self.closed or self._up) and self.task.streams_weights and is_tractable(self.task):
            self._hold()

    def _relax(self) -> None:
        """Bound by weak duality, and round the answer: branch and bound would not end its first node in time."""
        model, best = self.model, self.best_ps
        # No time of a better plan is longer than the best plan; a level's weights fit, or a row of it says so.
        most = max(best / model.unit_ps, CAPACITY) * 1.001
        program = replace(model.program, upper=np.minimum(model.program.upper, most))
        clock = None if self._clock.meter.counts_work else self._clock
        answer = relax(program, clock=clock, on_bound=lambda _: self._report_bound(0.0))
        bound_ps = ceil(answer.bound * model.unit_ps) + model.overhead_ps if answer.duals is not None else 0
        self._sound_ps = max(self._sound_ps, min(bound_ps, int(best)))
        self._report_bound(0.0)
        if answer.interrupted:
            raise KeyboardInterrupt
        if answer.values is not None:
            self.level = levels_of(model, answer.values)
            self._offer(place_levels(self.task, self.level).plan)

    def _rounds(self) -> None:
        """Solve, find addresses and add cuts, until the answer has addresses or repeats itself."""
        model, cuts, unproven = self.model, self.cuts, 0
        tried: set[bytes] = set()
        while not (self.closed or self._up) and unproven <= GUESSES:
            # Half of the gap for the solver, so that rounding does not exceed the whole.
            clock = self._clock.part(np.inf, SOLVER_SHARE)
            answer = solve_model(model, cuts, self.gap / 2, clock, self._report_bound, self.presolve)
            # A cut that is not proven may cut off better plans, so later bounds hold no longer.
            if not unproven:
                self._claim = max(self._claim, answer.claim, key=_bound)
            if answer.level is None or answer.level.tobytes() in tried:
                if answer.interrupted:
                    raise KeyboardInterrupt
                break
            tried.add(answer.level.tobytes())
            conflicts = self._offer_plans(answer.level)
            if answer.interrupted:
                raise KeyboardInterrupt
            if not conflicts:
                break
            cuts += [cut(self.task, model, conflict, answer.level) for conflict in conflicts]
            unproven += not all(is_certain(self.task, model, conflict) for conflict in conflicts)

    def _hold(self) -> None:
        """Search once more in the program that follows each copy, held to one level a tensor and one copy a weight.

        Both programs have all such plans, waits included, so both bounds hold for them.
        """
        best = self.evaluator.incumbent
        assert best is not None
        search = Search(self.task, self._offer, self._clock, self._report_bound)
        search.detail, search.presolve = Detail(held=True), self.presolve
        try:
            search.begin_with(best)
            search.branch_and_bound(self.gap / 2, self._clock.part(HELD_SECONDS, HELD_SHARE))
        finally:
            self._claim = max(self._claim, search.claim, key=_bound)

    def _offer_plans(self, level: Ints) -> list[Conflict]:
        """Offer plans with these levels; return the conflicts that leave tensors without addresses."""
        if not self.task.streams_weights:
            level = without_useless_tensors(self.task, level)
        plans, conflicts = placed(self.task, level, self._clock)
        before = self.best_ps
        for plan in plans:
            self._offer(plan)
        if self.level is None or self.best_ps < before:
            self.level = level
        return conflicts

    @property
    def _up(self) -> bool:
        return self._clock.up or self.evaluator.remaining == 0

    def _improve(self) -> None:
        """Improve the linear program's levels by single moves, or everything in the fastest level if that is better."""
        tensors = self.task.program.num_tensors
        fastest = np.zeros(tensors, dtype=np.int64)
        starts = [fastest] if self.level is None else [self.level, fastest]
        schedule = schedule_of(self.task, "weights-before-results")
        latency = evaluate_assignments(schedule, np.array(starts), np.arange(tensors)).latency_ps
        level, count = descend(
            self.task,
            starts[latency.argmin()],
            budget=min(self.evaluator.remaining - 1, affordable(self.task)),
            clock=self._clock.part(np.inf, SOLVER_SHARE),
        )
        self.evaluator.spend(count)
        self._offer(at_home(self.task, place_levels(self.task, level).plan))


def _bound(claim: Claim) -> int:
    return claim.bound_ps
