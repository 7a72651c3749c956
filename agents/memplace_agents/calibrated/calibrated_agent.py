"""The agent for black boxes: measure a few plans, fit the cost arrays to them, solve those, and measure again."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from memplace_agents.calibrated.cost_factors import CostFactors, FittedFactors, Floats
from memplace_agents.calibrated.machine_model import MachineModel
from memplace_agents.calibrated.proposals import SOLVE_WORK, Proposer
from memplace_agents.calibrated.repeated_measurements import MeasuredPlan, Measurements
from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_agents.search.local_search import LocalSearch
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.machine.costs import Costs
from memplace_env.placement.memory_plan import MemoryPlan

SOLVES_SHARE = 0.2
"""Share of the budget for plans that the exact agent finds under fitted costs."""
MOST_SOLVES = {Formulation.ONE_SHOT: 6, Formulation.GAME: 3}
"""Exact solves under fitted costs at most."""
NOMINAL_TIMES = 4
"""Measurements of the nominal optimum under noise: it is the best guess, and they say how noisy measurements are."""
FINAL_SHARE = 0.25
"""Share of the measurements under noise that compare the best plans at the end."""
EVIDENCE, PAIR_SIGMA = 1.0, 0.005
"""Standard deviations by which a plan must be faster than the nominal one to be kept under noise, and the relative
error of a fitted model in the ratio of two good plans' latencies, which have most of their ops in common."""
FINALISTS = 4
"""Plans that are compared at the end, those of the least expected latency."""
NEIGHBOURS = 16
"""Neighbours of which the fitted costs choose the one that is measured."""
SEARCH_EVERY = 4
"""Every so many plans after the solved ones, one is the end of a search under fitted costs; under noise all are."""
MOST_FITTED = 128
"""Measured plans that a fit uses at most: the fastest ones."""
GROWTH = 1.3
"""The factors are fitted again when there are so many times as many measurements."""
TEMPERATURE = 0.001
"""At the start of the annealing, as a share of the best latency; it falls to zero with the square of what is left."""
MOST_MEASURED = 500
"""Measurements after which fits tell little more: without noise a local search on the machine spends the rest."""
MOST_FRUITLESS = {Formulation.ONE_SHOT: 0.1, Formulation.GAME: 1.0}
"""Measurements in a row that improve nothing, as a share of the budget, after which the fitted costs guide no more:
without noise a local search on the machine spends the rest. In games none measures its moves."""
STUCK = 30
"""Proposals in a row that were measured before, after which the search ends: a small program has few plans."""


class Calibrated(Agent[Evaluator]):
    """Finds plans for a machine that can only be measured, with as few measurements as possible.

    1. The exact plans under the nominal costs and under those of a machine model, if there is one, and the plans of all
       rules (`cheap_plans`) are measured.
    2. Factors on the costs are fitted to what was measured (`cost_factors`), the exact agent solves the task under the
       fitted costs, its plan is measured, and so on; a plan that was measured already is replaced by one under factors
       drawn from their posterior (Thompson sampling).
    3. What is left anneals on the machine: of some neighbours of the current plan the one that the fitted costs prefer
       is measured, in turn with the end of a search under drawn factors. Under noise, which single measurements drown
       in, only the latter; and the last measurements compare the best plans. When a tenth of the budget in a row
       improves nothing, as where a machine overlaps what the costs add up, when proposals repeat, or after 500
       measurements, a local search that asks only the machine spends the rest; games are annealed on; under noise the
       search ends.

    Under noise the fitted costs and all measurements of a plan together decide (`repeated_measurements`), so that
    nothing is reserved for races. The nominal plan is kept unless measurements and costs together say that another one
    is faster by more than `EVIDENCE` standard deviations. Constants are our choice.

    Args:
        machine: what was learned of the machine on other programs, or the file that `memplace calibrate --from` wrote.

    Raises:
        AgentError: if the machine cannot be read.
    """

    def __init__(self, machine: MachineModel | str | PathLike[str] | None = None) -> None:
        self.machine = machine if isinstance(machine, MachineModel) or machine is None else MachineModel.load(machine)

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Measure, fit and solve until the budget is spent.

        Raises:
            AgentError: if the machine model is of another chip than the task's.
        """
        evaluator.end_races()
        _Calibration(evaluator, np.random.default_rng(seed), self.machine).run()
        if evaluator.remaining > 0 and not evaluator.noisy:
            search: Agent[Any] = GameLocalSearch() if evaluator.formulation is Formulation.GAME else LocalSearch()
            search.run(evaluator.part(1.0), seed)


class _Calibration:
    """One run of the agent."""

    def __init__(self, evaluator: Evaluator, rng: np.random.Generator, machine: MachineModel | None) -> None:
        self.evaluator, self.rng = evaluator, rng
        task = evaluator.env.task
        self.proposer, self.machine = Proposer(evaluator.env, rng), machine
        self.factors = CostFactors(task, machine.checked(task).prior if machine else None)
        self._references = list[MeasuredPlan]()
        # A noisy black box does not say how noisy it is.
        self.measured = Measurements((evaluator.noise or None) if evaluator.noisy else 0.0)
        self._budget = min(evaluator.remaining, MOST_MEASURED)
        self._fitted: FittedFactors | None = None
        self._fitted_at = 0

    def run(self) -> None:
        """Spend the budget of the evaluator."""
        try:
            self._begin()
            self._solve()
            self._anneal()
            if self.evaluator.noisy:
                self._compare()
        finally:
            self._choose()

    @property
    def _left(self) -> int:
        """Number of measurements that are left to this part of the search."""
        return min(self.evaluator.remaining, self._budget - self.measured.count)

    @property
    def _solves(self) -> int:
        return min(MOST_SOLVES[self.evaluator.formulation], int(SOLVES_SHARE * self._budget))

    def _begin(self) -> None:
        """Measure the nominal optimum, that of the machine model and the plans of all rules."""
        nominal = self._solved(self.evaluator.env.task.costs)
        plans = [nominal]
        if self.machine is not None:
            learned = self._solved(self.factors.costs(self.factors.prior.mean))
            # The only measurement goes to the plan that is kept, so that the model alone is the evidence.
            if self._left > 1 or self._is_faster(learned, nominal):
                plans = [learned, nominal]
        for plan in plans * (NOMINAL_TIMES if self.evaluator.noisy else 1):
            self._measure(plan)
        known = (self.measured.get(plan) for plan in (nominal, *plans) if plan is not None)
        self._references = list(dict.fromkeys(plan for plan in known if plan is not None))
        for plan in cheap_plans(self.evaluator.env.problem).values():
            if self._left <= self._solves:
                return
            if self.measured.get(plan) is None:
                self._measure(plan)

    def _solve(self) -> None:
        """Measure optima under fitted costs."""
        for step in range(self._solves):
            if self._left <= 0:
                return
            found = self._solved(self.factors.costs(self._drawn() if step % 2 else self._fit().mean))
            if found is None or self.measured.get(found) is not None:
                found = self._searched() or found
            self._measure(found)

    def _anneal(self) -> None:
        """Spend what is left, but for the last measurements under noise."""
        noisy = self.evaluator.noisy
        last = int(FINAL_SHARE * self._budget) if noisy else 0
        most, step, stuck = max(self._left - last, 1), 0, 0
        best = self._best()
        if best is None:
            return
        current, current_log = best.plan, best.mean_log
        best_log, fruitless = current_log, 0
        most_fruitless = MOST_FRUITLESS[self.evaluator.formulation] * self._budget
        while (left := self._left - last) > 0 and stuck < STUCK and fruitless < most_fruitless:
            step += 1
            if noisy or step % SEARCH_EVERY == 0:
                plan = self._searched()
            else:
                plan = self.proposer.neighbours(self.factors.costs(self._fit().mean), current, NEIGHBOURS)
            # Proposals that were measured before cost nothing; a program with few plans may have no others.
            found = self._measure(plan)
            stuck = stuck + 1 if found is None else 0
            if found is not None and not noisy:
                fruitless = 0 if found.mean_log < best_log else fruitless + 1
                best_log = min(best_log, found.mean_log)
                heat = TEMPERATURE * (left / most) ** 2
                if found.mean_log <= current_log - heat * np.log(max(self.rng.random(), 1e-300)):
                    current, current_log = found.plan, found.mean_log

    def _compare(self) -> None:
        """Measure the best plans in turn, and in between their order anew."""
        self._measure(self._solved(self.factors.costs(self._fit().mean)))
        while self._left > 0:
            estimates = self._estimates()
            plans = self.measured.plans
            for row in np.argsort(estimates, kind="stable")[:FINALISTS]:
                self._measure(plans[row].plan)

    def _measure(self, plan: MemoryPlan | None) -> MeasuredPlan | None:
        """Measure a plan; return None if that is of no use: without noise, if it was measured already."""
        if plan is None or self._left <= 0:
            return None
        known = self.measured.get(plan)
        if known is not None and not self.evaluator.noisy:
            return None
        report = self.evaluator.offer(plan)
        if known is None:
            known = MeasuredPlan(plan, self.factors.terms(plan), report, [])
            self.measured.add(known)
        known.logs.append(float(np.log(report.latency_s / PS)))
        return known

    def _solved(self, costs: Costs) -> MemoryPlan | None:
        left = self.evaluator.seconds_left
        if left == 0:
            return None
        seconds = None if left is None else min(SOLVE_WORK, left / 4)
        best = self._best() if self.measured.plans else None
        return self.proposer.solved(costs, seconds, best.plan if best else None)

    def _searched(self) -> MemoryPlan | None:
        """Return the end of a search under drawn factors from the best plan."""
        best = self._best()
        return None if best is None else self.proposer.searched(self.factors.costs(self._drawn()), best.plan)

    def _fit(self) -> FittedFactors:
        count = self.measured.count
        if self._fitted is None or count >= max(GROWTH * self._fitted_at, self._fitted_at + 1):
            self._fitted, self._fitted_at = self._fit_now(), count
        return self._fitted

    def _fit_now(self) -> FittedFactors:
        plans, variances = self.measured.plans, self.measured.variances()
        logs = np.array([plan.mean_log for plan in plans])
        rows = np.argsort(logs, kind="stable")[:MOST_FITTED]
        start = None if self._fitted is None else self._fitted.mean
        return self.factors.fit([plans[row].terms for row in rows], logs[rows], variances[rows], start)

    def _drawn(self) -> Floats:
        return self._fit().drawn(self.rng)

    def _estimates(self) -> Floats:
        """Return the expected logarithm of the latency of each measured plan."""
        terms = [plan.terms for plan in self.measured.plans]
        return self.measured.estimates(np.log(self.factors.latency_ps(terms, self._fit().mean)))

    def _best(self) -> MeasuredPlan | None:
        plans = self.measured.plans
        return plans[int(self._estimates().argmin())] if plans else None

    def _is_faster(self, plan: MemoryPlan | None, nominal: MemoryPlan | None) -> bool:
        """Return whether a machine model is evidence that a plan is faster than the nominal one."""
        if plan is None or nominal is None:
            return plan is not None
        factors = self.factors
        gain, variance = factors.log_ratio(factors.terms(nominal), factors.terms(plan), factors.prior)
        return gain > EVIDENCE * float(np.sqrt(variance + PAIR_SIGMA**2))

    def _choose(self) -> None:
        """Keep the best plan by all measurements of all plans, or the nominal one where that is no evidence."""
        if not (self.evaluator.noisy and self.measured.plans):
            return
        self._fitted = self._fit_now()
        plans, estimates = self.measured.plans, self._estimates()
        row, *others = [*map(plans.index, self._references), int(estimates.argmin())]
        for other in others:
            _, variance = self.factors.log_ratio(plans[row].terms, plans[other].terms, self._fitted)
            if estimates[row] - estimates[other] > EVIDENCE * np.sqrt(variance + PAIR_SIGMA**2):
                row = other
        best = plans[row]
        self.evaluator.choose(best.plan, best.report, [float(np.exp(log)) * PS for log in best.logs])
