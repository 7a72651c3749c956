"""The folder of a search's results: the best plan so far is in it, and a faster one that stands there stays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from memplace_env.analysis import Judged
from memplace_env.cli.interrupts import finishing
from memplace_env.cli.saved_plans import judge
from memplace_env.errors import PlanError
from memplace_env.files import write_together
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.views.text.quantities import seconds

if TYPE_CHECKING:
    from memplace_env.cli.result import Result

PLAN, PICTURE, TRACE = "plan.json", "plan.png", "trace.json"
_INSTEAD = "pass --out for another folder, or --force to replace it"


class ResultFolder:
    """Where `memplace solve` writes.

    Args:
        path: the folder.
        task: what is being solved.
        force: whether to write over whatever stands there.

    Attributes:
        standing: the plan of this task that stood there before; None if there is none, or with `force`.

    Raises:
        PlanError: if what stands there is no plan, or one for another task.
    """

    def __init__(self, path: Path, task: Task, force: bool = False) -> None:
        self.path, self._task, self._force = path, task, force
        self.standing = None if force else _standing(task, path / PLAN)
        self._kept: Judged | None = None
        self._has_picture = False

    def keep(self, result: Result) -> None:
        """Write the result's plan, picture and trace, unless they are written already or a faster plan stands here.

        An interrupt waits for it: what a search has found is kept.
        """
        with finishing():
            self._keep(result)

    def to_json(self) -> dict[str, Any]:
        """The files, and the latency in seconds of a faster plan that stood here before them and stays."""
        stays = self.standing if self._kept is None else None
        return {"files": self.files, "standing_s": stays.report.latency_s if stays else None}

    @property
    def files(self) -> dict[str, str | None]:
        """Where plan, picture and trace were written; None for what was not."""
        written = {"plan": self._kept, "picture": self._has_picture, "trace": self._kept}
        names = {"plan": PLAN, "picture": PICTURE, "trace": TRACE}
        return {kind: str(self.path / names[kind]) if done else None for kind, done in written.items()}

    @property
    def left(self) -> str:
        """What is left if the work is ended now."""
        return f"the best plan so far is in {self.path}" if self._kept else "nothing was written"

    def told(self, judged: Judged) -> str:
        """What was written, or why a plan was not."""
        if self._kept or self.standing is None:
            return "Written: " + ", ".join(path for path in self.files.values() if path)
        there, here = (seconds(plan.report.latency_s) for plan in (self.standing, judged))
        return f"Not written: {self.path / PLAN} is faster, {there} against {here}; {_INSTEAD}."

    def _keep(self, result: Result) -> None:
        judged = result.judged
        if (self._kept and self._kept.plan == judged.plan) or not self._fastest(judged):
            return
        picture = result.picture()
        files = {PLAN: judged.plan.to_json(), PICTURE: picture, TRACE: result.trace()}
        if write_together(self.path, files, wanted=lambda: self._fastest(judged)):
            self._kept, self._has_picture = judged, picture is not None

    def _fastest(self, judged: Judged) -> bool:
        """Whether nothing faster stands here; another run may have written since this one began, or last wrote."""
        if not self._force:
            self.standing = _standing(self._task, self.path / PLAN)
        if self.standing is None or self.standing.report.latency_ps >= judged.report.latency_ps:
            return True
        self._kept = None
        return False


def _standing(task: Task, path: Path) -> Judged | None:
    """The plan in that file; None if there is none, or it cannot run any more."""
    if not path.is_file():
        return None
    try:
        plan = MemoryPlan.load(path)
    except PlanError as error:
        raise PlanError(f"{str(error).removesuffix('.')}; {_INSTEAD}.") from None
    if _identity(plan, task) != _identity(MemoryPlan.of(task, plan.use_level, plan.allocations), task):
        raise PlanError(f"{path} is a plan for another task, {_described(plan)}; {_INSTEAD}.")
    try:
        return judge(task, plan, path)
    except PlanError:
        return None


def _identity(plan: MemoryPlan, task: Task) -> tuple[str, str, str]:
    """What has to be equal for latencies to be compared."""
    return plan.program_sha256, plan.accelerator_sha256, plan.settings.get("costs") or task.accelerator.cost_model


def _described(plan: MemoryPlan) -> str:
    """The task of a plan as it says itself."""
    settings = {name: value for name, value in plan.settings.items() if value and name not in _NAMED}
    flat = [f"{name} {value}" for name, value in settings.items() if not isinstance(value, dict)]
    flat += [f"{dim} {size}" for value in settings.values() if isinstance(value, dict) for dim, size in value.items()]
    return f"{plan.program} on {plan.accelerator}" + (f" with {', '.join(flat)}" if flat else "")


_NAMED = ("workload", "accelerator")
