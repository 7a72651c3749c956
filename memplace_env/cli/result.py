"""What `memplace solve` found: as files, as plain values, and on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from memplace_env.analysis import Hurt, Judged, find_hurts
from memplace_env.cli.console import note, stdout
from memplace_env.cli.environments import baseline_of
from memplace_env.cli.rivals import rivals_lines
from memplace_env.errors import VisualizationError
from memplace_env.registration import Formulation
from memplace_env.threads import cached_property
from memplace_env.views.style import to_png
from memplace_env.views.tables.results import Finding, bound_of, findings_table, hurts_table, result_table
from memplace_env.views.text.headlines import headline
from memplace_env.views.trace import trace_json

if TYPE_CHECKING:
    from agents import Solution
    from memplace_env.cli.environments import Env


@dataclass(frozen=True)
class Result:
    """Solutions of one environment, each with a plan; the fastest plan is the result.

    Attributes:
        env: what was solved.
        formulation: as what; says what bounds are about.
        found: by the agents that were asked, and by the exact agent while it proved a bound, by name.
        rivals: of solvers that take no time, by name.
    """

    env: Env
    formulation: Formulation
    found: Mapping[str, Solution]
    rivals: Mapping[str, Solution]

    @property
    def baseline(self) -> Judged:
        """What the speed-up is against."""
        return baseline_of(self.env)

    @cached_property
    def fastest(self) -> str:
        """Who has the fastest plan; of several the first, and a rival last."""
        solutions = {**self.found, **self.rivals}
        return min(solutions, key=lambda name: _latency_s(solutions[name]))

    @cached_property
    def solution(self) -> Solution:
        """The fastest, with the highest bound that anybody proved, and optimal if it is as good as that."""
        from agents.solution import is_optimal

        best = {**self.rivals, **self.found}[self.fastest]
        bound_s = max((each.bound_s for each in self.found.values() if each.bound_s is not None), default=None)
        assert best.report is not None
        outcome = "optimal" if is_optimal(best.report.latency_s, bound_s) else best.outcome
        return replace(best, bound_s=bound_s, outcome=outcome)

    @cached_property
    def judged(self) -> Judged:
        """The fastest plan."""
        assert self.solution.plan is not None
        assert self.solution.report is not None
        return Judged(self.solution.plan, self.solution.report)

    @cached_property
    def findings(self) -> list[Finding]:
        """Who found what; of an agent that lets others search, what each of those found, and of one name the best."""
        rows = []
        for name, each in {**self.rivals, **self.found}.items():
            if each.stints:
                rows += [Finding(*stint) for stint in each.stints]
            else:
                rows.append(Finding(name, _latency_s(each), each.evaluations, each.seconds))
        best: dict[str, Finding] = {}
        for row in rows:
            if row.latency_s < best.get(row.name, _NOTHING).latency_s and row.name != self.baseline.name:
                best[row.name] = row
        return list(best.values())

    @property
    def found_by(self) -> str:
        """Whose plan it is."""
        return self.solution.found_by if self.solution.stints else self.fastest

    @cached_property
    def hurts(self) -> list[Hurt]:
        """What still hurts."""
        return find_hurts(self.env.task, self.judged)

    def picture(self) -> bytes | None:
        """The memory map as a PNG file; None if it cannot be drawn."""
        from memplace_env.views.figures.plan import memory_map

        try:
            return to_png(memory_map(self.env.task, self.judged, self.baseline))
        except VisualizationError as error:
            note(f"No picture: {error}")
            return None

    def trace(self) -> str:
        """The course of the plan for Perfetto."""
        return trace_json(self.env.task, self.judged)

    def to_json(self) -> dict[str, Any]:
        """Plain values, all but the files."""
        task, baseline_s = self.env.task, self.baseline.report.latency_s
        return {
            "workload": task.program.name,
            "program_sha256": task.program.sha256,
            "accelerator": task.accelerator.name,
            "settings": dict(self.judged.plan.settings),
            **self.solution.summary(),
            "found_by": self.found_by,
            "baseline": self.baseline.name,
            "native": self.baseline.report.summary(),
            "findings": [{**row._asdict(), "speedup": baseline_s / row.latency_s} for row in self.findings],
            "hurts": [hurt.to_json() for hurt in self.hurts],
            "rivals": {name: each.speedup for name, each in self.rivals.items()},
        }

    def show(self) -> None:
        """Print headline, who found what, the result and what still hurts."""
        console, solution, task = stdout(), self.solution, self.env.task
        maps = self.formulation is Formulation.ONE_SHOT
        proven = "proven optimal for one level a tensor" if maps else "proven optimal"
        known = proven if solution.outcome == "optimal" else "the best that was found"
        head = f"{headline(task, self.judged.report, self.baseline)}, found by {self.found_by}, {known}"
        console.print(head, style="bold", soft_wrap=True)
        for line in rivals_lines(solution, self.rivals):
            console.print(line, style="dim", soft_wrap=True)
        console.print()
        bound = bound_of(self.judged.report, solution.bound_s, self.formulation)
        console.print(findings_table(self.baseline, self.findings, bound, self.found_by, solution.seed), "")
        console.print(result_table(task, self.judged, bound, self.baseline), "")
        console.print(hurts_table(self.hurts, self.judged), "")


_NOTHING = Finding("", inf, 0, 0.0)


def _latency_s(solution: Solution) -> float:
    return inf if solution.report is None else solution.report.latency_s
