"""Plans in files: loaded with the task that they were made for, and timed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memplace_env.errors import PlanError

if TYPE_CHECKING:
    from memplace_env.analysis import Judged
    from memplace_env.cli.model_flags import ModelFlags
    from memplace_env.plan import MemoryPlan
    from memplace_env.task import Task


def load_plan(model: str, path: Path, flags: ModelFlags) -> tuple[Task, MemoryPlan]:
    """A saved plan, and the task that it and the flags describe.

    Raises:
        MemPlaceError: if one of them cannot be read.
    """
    from memplace_env.plan import MemoryPlan

    plan = MemoryPlan.load(path)
    return flags.with_defaults_of(plan).task(model), plan


def judge(task: Task, plan: MemoryPlan, path: Path | None = None) -> Judged:
    """A plan with its report, called after its file if that is given.

    Raises:
        PlanError: if the plan cannot run; it names the file if that is given.
    """
    from memplace_env.analysis import Judged
    from memplace_env.simulator import judge_plan

    try:
        report = judge_plan(task, plan)
    except PlanError as error:
        raise PlanError(f"{path}: {error}" if path else str(error)) from None
    return Judged(plan, report, str(path)) if path else Judged(plan, report)
