"""The agent for black boxes: measure a few plans, fit the cost arrays to them, solve those, and measure again."""

from __future__ import annotations

import numpy as np

from memplace_agents.base import Agent
from memplace_agents.calibrated.cost_factors import CostFactors, FittedFactors, Floats, PlanTerms
from memplace_agents.calibrated.proposals import Proposer
from memplace_agents.evaluator import Evaluator
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS
from memplace_env.machine.costs import Costs
from memplace_env.placement.memory_plan import MemoryPlan

SOLVES_SHARE = 0.2
"""Share of the budget for plans that the exact agent finds under fitted costs."""
MOST_SOLVES = 16
SOLVE_SECONDS = 20.0
"""Guard of one exact solve."""
NEIGHBOURS = 16
"""Neighbours of which the fitted costs choose the one that is measured."""
SEARCH_EVERY = 4
"""Every so many plans after the exact ones, one is the end of a search under fitted costs; under noise all are."""
MOST_FITTED = 128
"""Measured plans that a fit uses at most: the fastest ones."""
GROWTH = 1.3
"""The factors are fitted again when there are so many times as many measurements."""
TEMPERATURE = 0.001
"""At the start of the annealing, as a share of the best latency; it falls to zero with the square of what is left."""


class Calibrated(Agent[Evaluator]):
    """Finds plans for a machine that can only be measured, with as few measurements as possible.

    1. The exact plan under the nominal costs and the cheap rules' plans are measured.
    2. Factors on the costs are fitted to what was measured (`cost_factors`), the exact agent solves the task under the
       fitted costs, its plan is measured, and so on; a plan that was measured already is replaced by one under factors
       drawn from their posterior (Thompson sampling).
    3. What is left anneals on the machine: of some neighbours of the current plan the one that the fitted costs prefer
       is measured, in turn with the end of a search under drawn factors. Under noise, which single measurements drown
       in, only the latter.

    With noisy measurements plans race, as in any search. Constants are our choice.

    Args:
        solve_seconds: guard of each exact solve; a solve that it ends may differ from run to run.

    Raises:
        AgentError: if an option is out of range.
    """

    def __init__(self, solve_seconds: float = SOLVE_SECONDS) -> None:
        if not solve_seconds > 0:
            raise AgentError(f"solve_seconds={solve_seconds} is out of range; pass more than 0.")
        self.solve_seconds = solve_seconds

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Measure, fit and solve until the budget is spent."""
        _Calibration(evaluator, np.random.default_rng(seed), self.solve_seconds).run()


class _Calibration:
    """One run of the agent."""

    def __init__(self, evaluator: Evaluator, rng: np.random.Generator, solve_seconds: float) -> None:
        self.evaluator, self.rng, self.solve_seconds = evaluator, rng, solve_seconds
        self.proposer, self.factors = Proposer(evaluator, rng), CostFactors(evaluator.env.task)
        self.terms: list[PlanTerms] = []
        self.measured_ps: list[float] = []
        self._known: dict[bytes, int] = {}
        self._fitted: FittedFactors | None = None
        self._fitted_at = 0

    def run(self) -> None:
        """Spend the budget of the evaluator."""
        self._measure(self._solved(self.proposer.nominal()))
        for plan in self.proposer.cheap():
            if self.evaluator.remaining <= self._solves or self.evaluator.remaining <= 0:
                break
            self._measure(plan)
        for _ in range(self._solves):
            if self.evaluator.remaining <= 0:
                return
            found = self._solved(self.factors.costs(self._fit().mean))
            if found is None or found.to_json().encode() in self._known:
                found = self._solved(self.factors.costs(self._drawn())) or found
            self._measure(found)
        self._anneal()

    @property
    def _solves(self) -> int:
        return min(MOST_SOLVES, int(SOLVES_SHARE * self.evaluator.budget))

    def _anneal(self) -> None:
        """Spend what is left."""
        current, current_ps, step = self.evaluator.incumbent, min(self.measured_ps, default=np.inf), 0
        noisy, most = self.evaluator.noisy, max(self.evaluator.remaining, 1)
        stuck = 0
        while (left := self.evaluator.remaining) > 0 and current is not None and stuck < 100:
            step += 1
            if noisy or step % SEARCH_EVERY == 0:
                best = self.evaluator.incumbent
                assert best is not None
                plan = self.proposer.searched(self.factors.costs(self._drawn()), best)
            else:
                plan = self.proposer.neighbours(self.factors.costs(self._fit().mean), current, NEIGHBOURS)
            found_ps = self._measure(plan)
            # Proposals that were measured before cost nothing; a program with few plans may have no others.
            stuck = stuck + 1 if found_ps is None else 0
            if plan is None or found_ps is None:
                continue
            heat = TEMPERATURE * current_ps * (left / most) ** 2
            if found_ps <= current_ps - heat * np.log(max(self.rng.random(), 1e-300)):
                current, current_ps = plan, found_ps

    def _measure(self, plan: MemoryPlan | None) -> float | None:
        """Measure a plan, unless it was measured already; return its latency in ps."""
        if plan is None or self.evaluator.remaining <= 0:
            return None
        key = plan.to_json().encode()
        if key in self._known and not self.evaluator.noisy:
            return None
        self._known[key] = len(self.terms)
        found_ps = self.evaluator.offer(plan).latency_s / PS
        self.terms.append(self.factors.terms(plan))
        self.measured_ps.append(found_ps)
        return found_ps

    def _solved(self, costs: Costs) -> MemoryPlan | None:
        left = self.evaluator.seconds_left
        seconds = self.solve_seconds if left is None else min(self.solve_seconds, left / 4)
        return self.proposer.solved(costs, seconds) if seconds > 0 else None

    def _fit(self) -> FittedFactors:
        if self._fitted is None or len(self.terms) >= max(GROWTH * self._fitted_at, self._fitted_at + 1):
            order = np.argsort(self.measured_ps, kind="stable")[:MOST_FITTED]
            start = None if self._fitted is None else self._fitted.mean
            noise = self.evaluator.noise or 0.0
            measured = np.array(self.measured_ps)[order]
            self._fitted = self.factors.fit([self.terms[row] for row in order], measured, noise, start)
            self._fitted_at = len(self.terms)
        return self._fitted

    def _drawn(self) -> Floats:
        return self._fit().drawn(self.rng)
