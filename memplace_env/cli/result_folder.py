"""The folder of a search's results: it holds the best plan so far, or a faster one that was there before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_env._lib.errors import PlanError
from memplace_env._lib.files import write_together
from memplace_env.cli.interrupts import finishing
from memplace_env.cli.saved_plans import evaluate_saved
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.quantities import seconds

if TYPE_CHECKING:
    from memplace_env.cli.solve_result import Result

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
    if _identity(plan, task) != _identity(task.make_plan(plan.use_level, plan.allocations), task):
        raise PlanError(f"{path} is a plan for another task, {_described(plan)}; {_INSTEAD}.")
    try:
        return evaluate_saved(task, plan, path)
    except PlanError:
        return None


def _identity(plan: MemoryPlan, task: Task) -> tuple[str, str, str]:
    """Return what must be equal for latencies to be comparable."""
    return plan.program_sha256, plan.accelerator_sha256, plan.settings.get("costs") or task.accelerator.cost_model


def _described(plan: MemoryPlan) -> str:
    """Return the task of a plan by its own settings, for messages."""
    settings = {name: value for name, value in plan.settings.items() if value and name not in _NAMED}
    flat = [f"{name} {value}" for name, value in settings.items() if not isinstance(value, dict)]
    flat += [f"{dim} {size}" for dim, size in (settings.get("dims") or {}).items()]
    flat += ["merged slices"] if isinstance(settings.get("slices"), dict) else []
    return f"{plan.program} on {plan.accelerator}" + (f" with {', '.join(flat)}" if flat else "")


_NAMED = ("workload", "accelerator")
