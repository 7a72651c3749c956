"""What `memplace solve` found: written to files, as plain values, and on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_env.analysis import Hurt, Judged, find_hurts
from memplace_env.cli.console import note, stdout
from memplace_env.cli.environments import baseline_of, formulation_of
from memplace_env.cli.output import write_folder
from memplace_env.cli.rivals import rivals_lines
from memplace_env.errors import VisualizationError
from memplace_env.registration import Formulation
from memplace_env.views.style import to_png
from memplace_env.views.tables.results import bound_of, hurts_table, result_table
from memplace_env.views.text.headlines import headline
from memplace_env.views.text.quantities import ratio
from memplace_env.views.trace import trace_json

if TYPE_CHECKING:
    from agents import Solution
    from memplace_env.cli.environments import Env

PLAN, PICTURE, TRACE = "plan.json", "plan.png", "trace.json"


@dataclass(frozen=True)
class Result:
    """A solution that has a plan.

    Attributes:
        env: what was solved.
        solution: by the agent that was asked for.
        judged: its plan.
        rivals: what solvers that take no time find, by name.
        exact: what the exact agent found while it proved a bound, if it did.
    """

    env: Env
    solution: Solution
    judged: Judged
    rivals: dict[str, Solution]
    exact: Solution | None = None

    @property
    def baseline(self) -> Judged:
        """What the speed-up is against."""
        return baseline_of(self.env)

    @cached_property
    def hurts(self) -> list[Hurt]:
        """What still hurts."""
        return find_hurts(self.env.task, self.judged)

    def write(self, folder: Path) -> dict[str, str | None]:
        """Write plan, picture and trace; where each of them is, None for a picture that cannot be drawn."""
        picture = self._picture()
        plan, trace = self.judged.plan.to_json().encode(), trace_json(self.env.task, self.judged).encode()
        write_folder(folder, {PLAN: plan, PICTURE: picture, TRACE: trace})
        return {
            "plan": str(folder / PLAN),
            "picture": str(folder / PICTURE) if picture else None,
            "trace": str(folder / TRACE),
        }

    def _picture(self) -> bytes | None:
        from memplace_env.views.figures.plan import memory_map

        try:
            return to_png(memory_map(self.env.task, self.judged, self.baseline))
        except VisualizationError as error:
            note(f"No picture: {error}")
            return None

    def to_json(self, written: dict[str, str | None]) -> dict[str, Any]:
        """Plain values; `written` says where the files are."""
        task = self.env.task
        return {
            "workload": task.program.name,
            "program_sha256": task.program.sha256,
            "accelerator": task.accelerator.name,
            "settings": dict(self.judged.plan.settings),
            **self.solution.summary(),
            "baseline": self.baseline.name,
            "native": self.baseline.report.summary(),
            "exact": self.exact.summary() if self.exact else None,
            "hurts": [hurt.to_json() for hurt in self.hurts],
            "files": written,
            "rivals": {name: each.speedup for name, each in self.rivals.items()},
        }

    def show(self) -> None:
        """Print headline, result and what still hurts."""
        console, solution, task = stdout(), self.solution, self.env.task
        game = formulation_of(self.env) is Formulation.GAME
        proven = "proven optimal" if game else "proven optimal for one level a tensor"
        known = proven if solution.outcome == "optimal" else "the best it found"
        head = f"{headline(task, self.judged.report, self.baseline)}, {known}"
        spent = f"{solution.evaluations} plans evaluated in {solution.seconds:.1f} s, seed {solution.seed}"
        console.print(head, style="bold", markup=False, soft_wrap=True)
        console.print(f"{solution.agent}, {spent}", style="dim", markup=False, soft_wrap=True)
        for line in rivals_lines(solution, self.rivals):
            console.print(line, style="dim", markup=False, soft_wrap=True)
        if self.exact and self.exact.report and self.exact.report.latency_ps < self.judged.report.latency_ps:
            console.print(_faster(self.exact), markup=False, soft_wrap=True)
        console.print()
        bound = bound_of(self.judged.report, None if game else solution.bound_s)
        console.print(result_table(task, self.judged, bound, self.baseline), "")
        console.print(hurts_table(self.hurts, self.judged), "")


def _faster(exact: Solution) -> str:
    """What is said of the exact agent's plan where it is the faster one."""
    known = "proven optimal" if exact.outcome == "optimal" else "not proven optimal"
    return (
        f"The exact agent found a faster plan while it proved the bound: {ratio(exact.speedup)} over native, {known}; "
        "--agent exact writes it."
    )
