"""The solutions of one environment: which plan is the result, what is proven of it, and what each agent found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from memplace_agents.optimality import is_optimal, surviving_bound
from memplace_agents.solution import Solution
from memplace_env._lib.threads import cached_property
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, StageResult


@dataclass(frozen=True)
class SolutionSet:
    """Solutions of one environment, each with a plan; the fastest that may be the result is it.

    Attributes:
        baseline: the plan that the speed-up is over.
        solutions: those of the agents that were asked for, by name.
        baselines: solutions of solvers that take no time, by name.
        best_of_all: whether the plans of the proof and of the baselines may be the result; else only the agents' plans.
        proof: the exact agent's solution, if it ran after the others to prove a bound.
    """

    baseline: EvaluatedPlan
    solutions: Mapping[str, Solution]
    baselines: Mapping[str, Solution]
    best_of_all: bool = True
    proof: Solution | None = None

    @cached_property
    def searched(self) -> dict[str, Solution]:
        """Solutions of the agents, and the proof's under its agent's name."""
        return {**self.solutions, **({self.proof.agent: self.proof} if self.proof else {})}

    @cached_property
    def fastest(self) -> str:
        """Name of the solution that is the result; of equally fast ones the first, and a baseline last."""
        return _fastest(self.candidates if self.best_of_all else self.solutions)

    @cached_property
    def candidates(self) -> dict[str, Solution]:
        """All solutions by name: of the agents, the proof, the baselines, and the plan that the speed-up is over."""
        name, report, seed = self.baseline.name, self.baseline.report, next(iter(self.solutions.values())).seed
        over = Solution(name, "feasible", self.baseline.plan, report, report.latency_s, None, (), 0, 0.0, seed)
        # The second `searched` makes an agent's own solution count where a baseline has the agent's name.
        return {**self.searched, **self.baselines, name: over, **self.searched}

    @cached_property
    def solution(self) -> Solution:
        """The result, with the highest bound that any agent proved, and optimal if it is as good as that."""
        best = (self.candidates if self.best_of_all else self.solutions)[self.fastest]
        prover = max(self.searched.values(), key=lambda solution: solution.bound_s or 0.0)
        least_s = min(map(latency_of, self.candidates.values()))
        bound_s, proof = surviving_bound(least_s, prover.bound_s, prover.proof)
        assert best.report is not None
        outcome = best.outcome if bound_s == prover.bound_s else "feasible"
        outcome = "optimal" if is_optimal(best.report.latency_s, bound_s) else outcome
        return replace(best, bound_s=bound_s, proof=proof, outcome=outcome)

    @cached_property
    def faster(self) -> str | None:
        """Name of the fastest of all candidates if that is faster than the result; else None."""
        best = _fastest(self.candidates)
        return best if latency_of(self.candidates[best]) < latency_of(self.solution) else None

    @cached_property
    def evaluated(self) -> EvaluatedPlan:
        """The result's plan."""
        assert self.solution.plan is not None
        assert self.solution.report is not None
        return EvaluatedPlan(self.solution.plan, self.solution.report)

    @cached_property
    def stage_results(self) -> list[StageResult]:
        """The best result of each agent, in place of one with stages the best of each stage's agent."""
        rows = []
        for name, solution in {**self.baselines, **self.searched}.items():
            if solution.stage_results:
                rows += [StageResult(*stage_result) for stage_result in solution.stage_results]
            else:
                rows.append(StageResult(name, latency_of(solution), solution.evaluations, solution.seconds))
        best: dict[str, StageResult] = {}
        for row in rows:
            if row.latency_s < best.get(row.name, _NOTHING).latency_s and row.name != self.baseline.name:
                best[row.name] = row
        return list(best.values())

    @property
    def found_by(self) -> str:
        """Name of the agent, or of the stage's agent, that found the result."""
        return self.solution.found_by if self.solution.stage_results else self.fastest


_NOTHING = StageResult("", inf, 0, 0.0)


def latency_of(solution: Solution) -> float:
    """Return the latency of a solution's plan in seconds; infinite without a plan."""
    return inf if solution.report is None else solution.report.latency_s


def _fastest(solutions: Mapping[str, Solution]) -> str:
    """Return the name of the fastest solution, of equally fast ones the first."""
    return min(solutions, key=lambda name: latency_of(solutions[name]))
