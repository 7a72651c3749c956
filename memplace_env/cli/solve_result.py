"""The result of `memplace solve`: as files, as plain values, and on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from memplace_env._lib.errors import VisualizationError
from memplace_env._lib.threads import cached_property
from memplace_env.cli.baselines import agent_of, baseline_lines
from memplace_env.cli.console import note, stdout
from memplace_env.cli.environments import baseline_of
from memplace_env.envs.registration import Formulation
from memplace_env.report.explanation.bottlenecks import Bottleneck, find_bottlenecks
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.headlines import headline
from memplace_env.report.plans.result_tables import (
    bottlenecks_table,
    bound_of,
    piece_of,
    result_table,
    stage_results_table,
)
from memplace_env.report.plans.stage_result import StageResult
from memplace_env.report.quantities import percent, seconds
from memplace_env.report.style import to_png
from memplace_env.report.timeline.trace import trace_json

if TYPE_CHECKING:
    from memplace_agents import Solution
    from memplace_env.cli.environments import Env


@dataclass(frozen=True)
class Result:
    """Solutions of one environment, each with a plan; the fastest that may be written is the result.

    Attributes:
        env: the environment.
        formulation: its formulation, which bounds are about.
        solutions: those of the agents that were asked for, by name.
        baselines: solutions of solvers that take no time, by name.
        best_of_all: whether the plans of the proof and of the baselines may be the result; else only the agents' plans.
        proof: the exact agent's solution, if it ran after the others to prove a bound.
    """

    env: Env
    formulation: Formulation
    solutions: Mapping[str, Solution]
    baselines: Mapping[str, Solution]
    best_of_all: bool = True
    proof: Solution | None = None

    @property
    def baseline(self) -> EvaluatedPlan:
        """The plan that the speed-up is over."""
        return baseline_of(self.env)

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
        from memplace_agents import Solution

        name, report, seed = self.baseline.name, self.baseline.report, next(iter(self.solutions.values())).seed
        over = Solution(name, "feasible", self.baseline.plan, report, report.latency_s, None, (), 0, 0.0, seed)
        # The second `searched` makes an agent's own solution count where a baseline has the agent's name.
        return {**self.searched, **self.baselines, name: over, **self.searched}

    @cached_property
    def solution(self) -> Solution:
        """The result, with the highest bound that any agent proved, and optimal if it is as good as that."""
        from memplace_agents.optimality import is_optimal, surviving_bound

        best = (self.candidates if self.best_of_all else self.solutions)[self.fastest]
        prover = max(self.searched.values(), key=lambda solution: solution.bound_s or 0.0)
        least_s = min(map(_latency_s, self.candidates.values()))
        bound_s, proof = surviving_bound(least_s, prover.bound_s, prover.proof)
        assert best.report is not None
        outcome = best.outcome if bound_s == prover.bound_s else "feasible"
        outcome = "optimal" if is_optimal(best.report.latency_s, bound_s) else outcome
        return replace(best, bound_s=bound_s, proof=proof, outcome=outcome)

    @cached_property
    def faster(self) -> str | None:
        """Name of the fastest of all candidates if that is faster than the result; else None."""
        best = _fastest(self.candidates)
        return best if _latency_s(self.candidates[best]) < _latency_s(self.solution) else None

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
                rows.append(StageResult(name, _latency_s(solution), solution.evaluations, solution.seconds))
        best: dict[str, StageResult] = {}
        for row in rows:
            if row.latency_s < best.get(row.name, _NOTHING).latency_s and row.name != self.baseline.name:
                best[row.name] = row
        return list(best.values())

    @property
    def found_by(self) -> str:
        """Name of the agent, or of the stage's agent, that found the result."""
        return self.solution.found_by if self.solution.stage_results else self.fastest

    @cached_property
    def bottlenecks(self) -> list[Bottleneck]:
        """The ops that lose most time to memory."""
        return find_bottlenecks(self.env.task, self.evaluated)

    def picture(self) -> bytes | None:
        """Return the memory map as a PNG file; None if it cannot be drawn."""
        from memplace_env.report.plans.memory_map import memory_map

        try:
            return to_png(memory_map(self.env.task, self.evaluated, self.baseline))
        except VisualizationError as error:
            note(f"No picture: {error}")
            return None

    def trace(self) -> str:
        """Return the plan's run as a trace for Perfetto."""
        return trace_json(self.env.task, self.evaluated)

    def to_json(self) -> dict[str, Any]:
        """Return all but the files as plain values."""
        task, baseline_s = self.env.task, self.baseline.report.latency_s
        faster = None
        if self.faster:
            better = self.candidates[self.faster]
            faster = {"agent": self.faster, "latency_s": _latency_s(better), "speedup": better.speedup}
        return {
            "workload": task.program.name,
            "program_sha256": task.program.sha256,
            "accelerator": task.accelerator.name,
            "settings": dict(self.evaluated.plan.settings),
            **self.solution.summary(),
            "found_by": self.found_by,
            "faster_plan": faster,
            "baseline": self.baseline.name,
            "native": self.baseline.report.summary(),
            "stage_results": [{**row._asdict(), "speedup": baseline_s / row.latency_s} for row in self.stage_results],
            "bottlenecks": [bottleneck.to_json() for bottleneck in self.bottlenecks],
            "baselines": {name: solution.speedup for name, solution in self.baselines.items()},
        }

    def show(self) -> None:
        """Print the headline, the results of all agents, the result and its bottlenecks."""
        console, solution, task = stdout(), self.solution, self.env.task
        is_static = self.formulation is Formulation.ONE_SHOT
        piece = piece_of(task.program)
        proven = f"proven optimal for one level a {piece}" if is_static else "proven optimal"
        status = proven if solution.outcome == "optimal" else "the best that was found"
        if self.faster:
            status = "not the fastest plan that was found"
        head = f"{headline(task, self.evaluated.report, self.baseline)}, found by {self.found_by}, {status}"
        console.print(head, style="bold", soft_wrap=True)
        if self.faster:
            console.print(self._faster_text(self.faster), style="bold", soft_wrap=True)
        if solution.backing_port_before_s is not None:
            console.print(self._tie_text(solution), style="dim", soft_wrap=True)
        for line in baseline_lines(solution, self.baselines):
            console.print(line, style="dim", soft_wrap=True)
        console.print()
        bound = bound_of(self.evaluated.report, solution.bound_s, self.formulation, piece)
        console.print(stage_results_table(self.baseline, self.stage_results, bound, self.found_by, solution.seed), "")
        console.print(result_table(task, self.evaluated, bound, self.baseline), "")
        console.print(bottlenecks_table(task, self.evaluated), "")

    def _tie_text(self, solution: Solution) -> str:
        """Return by how much less a tie-break keeps the backing memory's port busy."""
        assert solution.backing_port_s is not None
        assert solution.backing_port_before_s is not None
        level = self.env.task.accelerator.levels[-1].name
        before = seconds(solution.backing_port_before_s)
        return f"{level} port busy {seconds(solution.backing_port_s)} ({before} before the tie-break)."

    def _faster_text(self, faster: str) -> str:
        """Return by how much another plan is faster, and the agents that write one at least as fast."""
        from memplace_agents.registry import DEFAULTS

        latency_s = _latency_s(self.candidates[faster])
        saved = percent(1 - latency_s / _latency_s(self.solution))
        names = {agent_of(faster, self.formulation): None, DEFAULTS[self.formulation]: None}
        agents = " or ".join(f"--agent {name}" for name in names if name and name not in self.solutions)
        return f"The plan of {faster} takes {seconds(latency_s)}, {saved} less; pass {agents} to write one as fast."


_NOTHING = StageResult("", inf, 0, 0.0)


def _latency_s(solution: Solution) -> float:
    return inf if solution.report is None else solution.report.latency_s


def _fastest(solutions: Mapping[str, Solution]) -> str:
    """Return the name of the fastest solution, of equally fast ones the first."""
    return min(solutions, key=lambda name: _latency_s(solutions[name]))
