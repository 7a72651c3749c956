"""The result of `memplace solve`: proven, as files in its folder, as plain values, and on the screen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_agents.solution_set import SolutionSet, latency_of
from memplace_env._lib.errors import AgentError, PlanError, VisualizationError
from memplace_env._lib.files import write_together
from memplace_env._lib.threads import cached_property
from memplace_env.cli.agent_run import Limits, agent_of, baseline_lines, search
from memplace_env.cli.console import note, stdout
from memplace_env.cli.interrupts import finishing
from memplace_env.cli.saved_plans import evaluate_saved
from memplace_env.envs.registration import Formulation
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
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
from memplace_env.report.quantities import percent, seconds
from memplace_env.report.style import to_png
from memplace_env.report.timeline.trace import trace_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from memplace_agents import Agent, Solution
    from memplace_agents.exact.order.order_search import FoundOrder
    from memplace_env.cli.model_flags import Env


@dataclass(frozen=True, kw_only=True)
class Result(SolutionSet):
    """The solutions of one environment as the command writes and prints them.

    Attributes:
        env: the environment.
        formulation: its formulation, which bounds are about.
        order: the search for the order of its ops, if there was one.
    """

    env: Env
    formulation: Formulation
    order: FoundOrder | None = None

    @cached_property
    def bottlenecks(self) -> list[Bottleneck]:
        """The ops that lose most time to memory."""
        return find_bottlenecks(self.env.task, self.evaluated)

    def picture(self) -> bytes | None:
        """Return the memory map as a PNG file; None if it cannot be drawn."""
        from memplace_env.report.plans.memory_map import memory_map

        return drawn(lambda: memory_map(self.env.task, self.evaluated, self.baseline))

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
            **({"order": self.order.summary(latency_of(self.solution))} if self.order else {}),
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
        if self.order:
            console.print(self._order_text(self.order), soft_wrap=True)
        if self.faster:
            console.print(self._faster_text(self.faster), style="bold", soft_wrap=True)
        if solution.backing_port_before_s is not None:
            console.print(self._tie_text(solution), style="dim", soft_wrap=True)
        for line in baseline_lines(solution, self.baselines):
            console.print(line, style="dim", soft_wrap=True)
        console.print()
        bound = bound_of(self.evaluated.report, solution.bound_s, self.formulation, task.program)
        console.print(stage_results_table(self.baseline, self.stage_results, bound, self.found_by, solution.seed), "")
        console.print(result_table(task, self.evaluated, bound, self.baseline), "")
        console.print(bottlenecks_table(task, self.evaluated), "")

    def _order_text(self, order: FoundOrder) -> str:
        """Return what the order gains, and what no order beats."""
        found = order.summary(latency_of(self.solution))
        gains = f"{percent(found['gain'])} faster than in the file's" if order.order is not None else "the file's"
        above = f"{percent(found['gap_all_orders'])} above the bound"
        within = "proven optimal" if found["optimal_over_all_orders"] else above
        place = "in place where they may be" if len(self.env.task.program.inplace) else "never in place"
        bounds = f"bound {seconds(order.bound_s)}, in the file's {seconds(order.given.bound_s or 0.0)}"
        return f"Order of ops: {gains}, {within} over all orders ({bounds}); results {place}."

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


def drawn(draw: Callable[[], Figure]) -> bytes | None:
    """Return a figure as a PNG file; None, with a note, if it cannot be drawn."""
    try:
        return to_png(draw())
    except VisualizationError as error:
        note(f"No picture: {error}")
        return None


_BUDGET = 1000
"""Plans that the exact agent may try; a proof takes a handful, and without one the time ends the search first."""


def with_proven_bound(result: Result, seconds: float, *, left: str) -> Result:
    """Return the result with what the exact agent finds and proves in that time, if it has no bound yet.

    Args:
        result: result of any agents.
        seconds: time for the proof; 0: none.
        left: a few words on what is left if the proof is interrupted.
    """
    env, solution = result.env, result.solution
    if solution.bound_s is not None or not seconds:
        return result
    if env.task.is_black_box:
        note("No bound is proven: a proof needs the costs of the built-in simulator; leave out --simulator for one.")
        return result
    from memplace_agents import Exact, ExactDynamic

    prover: Agent[Any] = ExactDynamic() if result.formulation is Formulation.DYNAMIC else Exact()
    try:
        return replace(result, proof=search(prover, env, Limits(_BUDGET, solution.seed, seconds), left=left))
    except AgentError as error:
        note(f"No bound is proven: {error}")
        return result


PLAN, PICTURE, TRACE = "plan.json", "plan.png", "trace.json"
_INSTEAD = "pass --out for another folder, or --force to replace it"


class ResultFolder:
    """The folder in which `memplace solve` writes.

    Args:
        path: the folder.
        task: the task that is solved.
        force: whether to write over whatever is there.

    Attributes:
        standing: the plan of this task that was there before; None if there is none, or with `force`.

    Raises:
        PlanError: if the file there is no plan, or one for another task.
    """

    def __init__(self, path: Path, task: Task, force: bool = False) -> None:
        self.path, self._task, self._force = path, task, force
        self.standing = None if force else _standing(task, path / PLAN)
        self._kept: EvaluatedPlan | None = None
        self._has_picture = False

    def keep(self, result: Result) -> None:
        """Write the result's plan, picture and trace, unless they are written already or a faster plan is here.

        An interrupt is delayed until the end.
        """
        with finishing():
            self._keep(result)

    def to_json(self) -> dict[str, Any]:
        """Return the files, and the latency in seconds of a faster plan that was here before and stays."""
        stays = self.standing if self._kept is None else None
        return {"files": self.files, "standing_s": stays.report.latency_s if stays else None}

    @property
    def files(self) -> dict[str, str | None]:
        """Paths of plan, picture and trace; None for those that were not written."""
        written = {"plan": self._kept, "picture": self._has_picture, "trace": self._kept}
        names = {"plan": PLAN, "picture": PICTURE, "trace": TRACE}
        return {kind: str(self.path / names[kind]) if done else None for kind, done in written.items()}

    @property
    def left(self) -> str:
        """A few words on what is left if the work is ended now."""
        return f"the best plan so far is in {self.path}" if self._kept else "nothing was written"

    def summary(self, evaluated: EvaluatedPlan) -> str:
        """Return a line with the files that were written, or why the plan was not."""
        if self._kept or self.standing is None:
            return "Written: " + ", ".join(path for path in self.files.values() if path)
        there, here = (seconds(plan.report.latency_s) for plan in (self.standing, evaluated))
        return f"Not written: {self.path / PLAN} is faster, {there} against {here}; {_INSTEAD}."

    def _keep(self, result: Result) -> None:
        evaluated = result.evaluated
        if (self._kept and self._kept.plan == evaluated.plan) or not self._fastest(evaluated):
            return
        picture = result.picture()
        files = {PLAN: evaluated.plan.to_json(), PICTURE: picture, TRACE: result.trace()}
        if write_together(self.path, files, wanted=lambda: self._fastest(evaluated)):
            self._kept, self._has_picture = evaluated, picture is not None

    def _fastest(self, evaluated: EvaluatedPlan) -> bool:
        """Return whether no faster plan is here; another run may have written one in the meantime."""
        if not self._force:
            self.standing = _standing(self._task, self.path / PLAN)
        if self.standing is None or self.standing.report.latency_ps >= evaluated.report.latency_ps:
            return True
        self._kept = None
        return False


def _standing(task: Task, path: Path) -> EvaluatedPlan | None:
    """Return the plan in that file; None if there is none, or it cannot run any more."""
    if not path.is_file():
        return None
    try:
        plan = MemoryPlan.load(path)
    except PlanError as error:
        raise PlanError(f"{str(error).removesuffix('.')}; {_INSTEAD}.") from None
    here = _identity(task.make_plan(plan.use_level, plan.allocations), task)
    differing = [what for what, there in _identity(plan, task).items() if there != here[what]]
    if differing:
        other = f"{_described(plan)}: not the same {' and '.join(differing)}"
        raise PlanError(f"{path} is a plan for another task, {other}; {_INSTEAD}.")
    try:
        return evaluate_saved(task, plan, path)
    except PlanError:
        return None


def _identity(plan: MemoryPlan, task: Task) -> dict[str, str]:
    """Return what must be equal for latencies to be comparable."""
    costs = plan.settings.get("costs") or task.accelerator.cost_model
    return {"program": plan.program_sha256, "chip": plan.accelerator_sha256, "cost model": costs}


def _described(plan: MemoryPlan) -> str:
    """Return the task of a plan by its own settings, for messages."""
    settings = {name: value for name, value in plan.settings.items() if value and name not in _NAMED}
    flat = [f"{name} {value}" for name, value in settings.items() if not isinstance(value, dict | list)]
    flat += [f"{dim} {size}" for dim, size in (settings.get("dims") or {}).items()]
    flat += ["merged slices"] if isinstance(settings.get("slices"), dict) else []
    flat += ["an order of its own"] if "order" in settings else []
    return f"{plan.program} on {plan.accelerator}" + (f" with {', '.join(flat)}" if flat else "")


_NAMED = ("workload", "accelerator")
