"""Plans in files: loaded with the task that they were made for, and timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memplace_env.cli.output import short_name
from memplace_env.errors import PlanError, WorkloadError
from memplace_env.workload.resolve import symbolic_dims

if TYPE_CHECKING:
    from memplace_env.analysis import Judged
    from memplace_env.cli.model_flags import ModelFlags
    from memplace_env.plan import MemoryPlan
    from memplace_env.task import Task


def load_plan(model: str, path: Path, flags: ModelFlags) -> tuple[Task, MemoryPlan]:
    """A saved plan, and the task that it and the flags describe.

    Raises:
        MemPlaceError: if one of them cannot be read, or the model is another than the plan's.
    """
    from memplace_env.plan import MemoryPlan

    plan = MemoryPlan.load(path)
    with blaming(plan, path, model):
        return flags.with_defaults_of(plan).task(model), plan


@contextmanager
def blaming(plan: MemoryPlan, path: Path, model: str) -> Iterator[None]:
    """Where a model of another name cannot be built with a plan's settings, say first that the plan is another's.

    Raises:
        PlanError: naming both programs.
    """
    try:
        yield
    except WorkloadError as error:
        symbolic_dims(model)  # if there is no such model, that is what is wrong
        if plan.program.lower() == short_name(model).lower():
            raise
        raise PlanError(
            f"{path} was made for another program, {plan.program!r}, whose settings do not fit {model!r}: {error}"
        ) from None


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
