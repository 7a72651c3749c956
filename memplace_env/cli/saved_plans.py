"""Plans in files: loaded with the task that they were made for, and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env._lib.errors import PlanError, WorkloadError
from memplace_env.cli.console import short_name
from memplace_env.placement.workloads import symbolic_dims

if TYPE_CHECKING:
    from memplace_env.cli.model_flags import ModelFlags
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.task import Task
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

NamedPlan = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL] PLAN",
        help="A plan.json that memplace wrote, after its model, or after an id of 'memplace envs', whose settings "
        "replace the plan's. A plan for a program of the zoo needs no MODEL.",
    ),
]
_SUFFIX = ".json"
"""Ends the first of several plans; anything else in its place is a model."""


def named_plan(arguments: Sequence[str]) -> tuple[str | None, Path]:
    """Return the model, None if it is left out, and the plan's path of a command that takes one plan.

    Raises:
        PlanError: if there are more arguments, or a model without a plan.
    """
    if len(arguments) > 2:
        raise PlanError(f"Pass one plan, after its model if it needs one, not {len(arguments)} arguments.")
    if len(arguments) == 2:
        return arguments[0], Path(arguments[1])
    return None, named_plans(arguments)[1][0]


def named_plans(arguments: Sequence[str]) -> tuple[str | None, list[Path]]:
    """Return the model, None if the first argument is a plan already, and the plans' paths.

    Raises:
        PlanError: if there is a model without a plan.
    """
    from memplace_env.placement.workloads import SUFFIXES

    first, *others = arguments
    if others and not first.lower().endswith(_SUFFIX):
        return first, [Path(argument) for argument in others]
    if not others and first.lower().removesuffix(".xz").endswith(SUFFIXES):
        raise PlanError(f"{first!r} is a model; pass the path of its plan.json after it.")
    if not others and not first.lower().endswith(_SUFFIX) and not Path(first).exists():
        raise PlanError(f"There is no plan {first!r}; pass the path of a plan.json, after its model if it needs one.")
    return None, [Path(argument) for argument in arguments]


def load_plan(model: str | None, path: Path, flags: ModelFlags) -> tuple[Task, MemoryPlan]:
    """Return the task that a saved plan and the flags describe, and the plan.

    Args:
        model: as typed; None: the plan names a program of the zoo, or a synthetic one.
        path: the plan.
        flags: replace what the plan says of its task.

    Raises:
        MemPlaceError: if the plan or the model cannot be read, the model is another than the plan's, or none was
            passed and the plan names a file.
    """
    from memplace_env.cli.model_flags import note_no_mechanisms

    plan, model, flags = read_saved(model, path, flags)
    with naming_mismatch(plan, path, model):
        task = flags.task(model)
    note_no_mechanisms(task)
    return task, plan


def read_saved(model: str | None, path: Path, flags: ModelFlags) -> tuple[MemoryPlan, str, ModelFlags]:
    """Return a saved plan, and the model and flags that describe its task; arguments and errors as in `load_plan`."""
    from memplace_env.placement.memory_plan import MemoryPlan

    plan = MemoryPlan.load(path)
    if model is None:
        model = _model_of(plan, path, chip_given=flags.accelerator is not None)
    model, flags = flags.of_id(model)
    return plan, model, flags.with_defaults_of(plan)


def _model_of(plan: MemoryPlan, path: Path, *, chip_given: bool) -> str:
    """Return the model that a plan names, if that is no file: the plan may be a stranger's.

    Raises:
        PlanError: if it is a file, with what to pass, for the chip too if that is a file and not given.
    """
    from memplace_env.machine.accelerator import is_shipped
    from memplace_env.program.zoo import zoo_names

    name = plan.settings.get("workload") or plan.program
    if isinstance(name, str) and (name.startswith("synthetic:") or name.lower() in map(str.lower, zoo_names())):
        return name
    chip = plan.settings.get("accelerator") or plan.accelerator
    own_chip = "" if chip_given or (isinstance(chip, str) and is_shipped(chip)) else " --accelerator CHIP.toml"
    raise PlanError(
        f"{path} is a plan for {name!r}, which is not in the zoo, and no file is opened because a plan names it; pass "
        f"the model before the plan: MODEL {path}{own_chip}."
    )


@contextmanager
def naming_mismatch(plan: MemoryPlan, path: Path, model: str) -> Iterator[None]:
    """Report a plan of another program before settings of that plan that do not fit the model.

    Raises:
        PlanError: naming both programs.
    """
    try:
        yield
    except WorkloadError as error:
        symbolic_dims(model)  # raises if there is no such model, which is then the reason
        if plan.program.lower() == short_name(model).lower():
            raise
        raise PlanError(
            f"{path} was made for another program, {plan.program!r}, whose settings do not fit {model!r}: {error}"
        ) from None


def evaluate_saved(task: Task, plan: MemoryPlan, path: Path | None = None) -> EvaluatedPlan:
    """Return a plan with its report, named after its file if that is given.

    Raises:
        PlanError: if the plan cannot run; the error names the file if that is given.
    """
    from memplace_env.placement.simulator import evaluate_plan
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

    try:
        report = evaluate_plan(task, plan)
    except PlanError as error:
        raise PlanError(f"{path}: {error}" if path else str(error)) from None
    return EvaluatedPlan(plan, report, str(path)) if path else EvaluatedPlan(plan, report)


def load_evaluated(
    model: str | None, paths: Sequence[Path], flags: ModelFlags
) -> tuple[list[Task], list[EvaluatedPlan]]:
    """Return the task of each of several plans of one program and chip, and the plans with their reports.

    The first plan's settings say how the program is built, but for the slices, which are each plan's own.

    Raises:
        MemPlaceError: as by `load_plan` and `evaluate_saved`, and if plans have different orders or results in place.
    """
    from memplace_env.placement.memory_plan import MemoryPlan

    first, plan = load_plan(model, paths[0], flags)
    saved = [plan, *(MemoryPlan.load(path) for path in paths[1:])]
    for other, path in zip(saved, paths, strict=True):
        _require_same_ops(plan, paths[0], other, path)
    tasks = [_own_task(first, plan, model, path, flags) for plan, path in zip(saved, paths, strict=True)]
    rows = zip(tasks, saved, paths, strict=True)
    return tasks, [evaluate_saved(task, plan, path) for task, plan, path in rows]


def _require_same_ops(first: MemoryPlan, first_path: Path, other: MemoryPlan, path: Path) -> None:
    """Raise PlanError if two plans of a program have their ops in different orders, or different results in place."""
    if first.program != other.program or first.program_sha256 == other.program_sha256:
        return
    asked = {"order": "the same order of ops", "in_place": "the same results in place"}
    differ = [text for name, text in asked.items() if first.settings.get(name) != other.settings.get(name)]
    if differ:
        raise PlanError(
            f"{first_path} and {path} do not have {' and '.join(differ)}, so that their ops are not compared one by "
            "one; 'memplace explain' shows each of them."
        )


def _own_task(task: Task, plan: MemoryPlan, model: str | None, path: Path, flags: ModelFlags) -> Task:
    """Return the task, or that of a plan which has the same program in other slices."""
    if plan.program_sha256 == task.program.sha256 or plan.settings.get("slices") == task.settings.get("slices"):
        return task
    own, _ = load_plan(model, path, flags)
    return own if own.program.whole.sha256 == task.program.whole.sha256 else task


def in_one_task(tasks: Sequence[Task], plans: Sequence[EvaluatedPlan]) -> tuple[Task, list[EvaluatedPlan]]:
    """Return the plans in a common task: theirs, or one with common slices if they cut tensors differently."""
    from memplace_env.placement.merging import in_common_slices

    if all(task is tasks[0] for task in tasks):
        return tasks[0], list(plans)
    task, common = in_common_slices(tasks, [evaluated.plan for evaluated in plans])
    return task, [evaluated._replace(plan=plan) for evaluated, plan in zip(plans, common, strict=True)]
