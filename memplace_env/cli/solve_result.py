"""The result of `memplace solve`: as files, as plain values, and on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memplace_agents.solution_set import SolutionSet, latency_of
from memplace_env._lib.errors import VisualizationError
from memplace_env._lib.threads import cached_property
from memplace_env.cli.baselines import agent_of, baseline_lines
from memplace_env.cli.console import note, stdout
from memplace_env.envs.registration import Formulation
from memplace_env.report.explanation.bottlenecks import Bottleneck, find_bottlenecks
from memplace_env.report.plans.headlines import headline
from memplace_env.report.plans.result_tables import (
    bottlenecks_table,
    bound_of,
    piece_of,
    result_table,
    stage_results_table,
)
from memplace_env.report.quantities import percent, seconds
from memplace_env.report.style import to_png
from memplace_env.report.timeline.trace import trace_json

if TYPE_CHECKING:
    from memplace_agents import Solution
    from memplace_env.cli.environments import Env


@dataclass(frozen=True, kw_only=True)
class Result(SolutionSet):
    """The solutions of one environment as the command writes and prints them.

    Attributes:
        env: the environment.
        formulation: its formulation, which bounds are about.
    """

    env: Env
    formulation: Formulation

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
            faster = {"agent": self.faster, "latency_s": latency_of(better), "speedup": better.speedup}
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

        latency_s = latency_of(self.candidates[faster])
        saved = percent(1 - latency_s / latency_of(self.solution))
        names = {agent_of(faster, self.formulation): None, DEFAULTS[self.formulation]: None}
        agents = " or ".join(f"--agent {name}" for name in names if name and name not in self.solutions)
        return f"The plan of {faster} takes {seconds(latency_s)}, {saved} less; pass {agents} to write one as fast."
