"""`memplace simulate`, `validate` and `compare`: evaluate and check saved plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, plan_flags
from memplace_env.cli.saved_plans import (
    NamedPlan,
    evaluate_saved,
    in_one_task,
    load_evaluated,
    load_plan,
    named_plan,
    named_plans,
)
from memplace_env.cli.shared_options import FileFlag, JsonFlag

if TYPE_CHECKING:
    from memplace_env.placement.task import Task
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

INVALID = 1
"""Exit code if a plan is not valid."""
NATIVE = "native"
"""Names the compiler's own plan."""


@plan_flags()
def simulate(plan: NamedPlan, flags: ModelFlags, json: JsonFlag = False) -> None:
    """Time a saved plan, beside the compiler's own.

    The plan's settings say how the program is built. --json prints speedup, native_latency_s, report and bottlenecks.
    """
    from memplace_env.report.explanation.bottlenecks import find_bottlenecks
    from memplace_env.report.plans.evaluated_plan import native_baseline
    from memplace_env.report.plans.headlines import simulator_notes
    from memplace_env.report.plans.result_tables import bottlenecks_table, result_table

    model, path = named_plan(plan)
    task, saved = load_plan(model, path, flags)
    evaluated = evaluate_saved(task, saved)
    if json:
        print_json(
            {
                "workload": task.program.name,
                "accelerator": task.accelerator.name,
                **_plan_json(task, path, evaluated),
                "native_latency_s": native_baseline(task).report.latency_s,
                "bottlenecks": [bottleneck.to_json() for bottleneck in find_bottlenecks(task, evaluated)],
            }
        )
        return
    console = stdout()
    for line in simulator_notes(task, [evaluated]):
        console.print(line, soft_wrap=True)
    console.print(result_table(task, evaluated), "")
    console.print(bottlenecks_table(task, evaluated))


@plan_flags("simulator")
def validate(plan: NamedPlan, flags: ModelFlags, json: JsonFlag = False) -> None:
    """Check a saved plan and list every rule it breaks.

    Exit code 0: valid; 1: not valid; 2: the model or the plan cannot be read. --json prints valid and violations.
    """
    from memplace_env.placement.validation import violations

    model, path = named_plan(plan)
    task, saved = load_plan(model, path, flags)
    broken = violations(task, saved)
    if json:
        print_json({"plan": str(path), "valid": not broken, "violations": [item._asdict() for item in broken]})
    elif broken:
        console = stdout()
        number = "1 violation" if len(broken) == 1 else f"{len(broken)} violations"
        console.print(f"{path} is not valid: {number}.", soft_wrap=True)
        for item in broken:
            console.print(f"{item.rule}: {item.message}", soft_wrap=True)
    else:
        sizes = f"{len(saved.allocations)} blocks, {len(saved.transfers)} transfers"
        stdout().print(f"{path} is valid: {sizes}.", soft_wrap=True)
    if broken:
        raise typer.Exit(INVALID)


@plan_flags()
def compare(
    plans: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] PLAN...",
            help="Plans for one program and chip, after the model; plans for a program of the zoo need no MODEL.",
        ),
    ],
    *,
    flags: ModelFlags,
    picture: FileFlag = None,
    json: JsonFlag = False,
) -> None:
    """Compare plans of one program, with the ops whose times differ most.

    The first plan's settings say how the program is built. The compiler's own plan comes first if there is a single
    plan, or the word native among them. Plans may cut tensors into different slices, but need the same order of ops and
    results in place. --out FILE.png draws what the first two plans keep in fast memory, and where the second gains.
    --json prints native, plans, equal (whether all plans are the same), differences, routes (uses that the first two
    serve from different memories, and what that saves) and the picture.
    """
    from memplace_env._lib.errors import MemPlaceError
    from memplace_env.cli.console import check_folder
    from memplace_env.report.explanation.differences import biggest_differences
    from memplace_env.report.explanation.routes import routes_between
    from memplace_env.report.plans.evaluated_plan import native_baseline
    from memplace_env.report.plans.headlines import simulator_notes
    from memplace_env.report.plans.result_tables import comparison_table, differences_table

    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise MemPlaceError(f"--out {picture} must be the name of a picture; end it in .png.")
        check_folder(picture.parent)
    model, paths = named_plans([plan for plan in plans if plan != NATIVE] or plans)
    tasks, evaluated = load_evaluated(model, paths, flags)
    first, notes = tasks[0], simulator_notes(tasks[0], evaluated)
    task, evaluated = in_one_task(tasks, evaluated)
    compared = [native_baseline(first), *evaluated] if NATIVE in plans or len(evaluated) == 1 else evaluated
    if picture is not None:
        _draw(task, compared, picture)
    if json:
        print_json(
            {
                "native": native_baseline(first).report.summary(),
                "plans": [_plan_json(first, path, plan) for path, plan in zip(paths, evaluated, strict=True)],
                "equal": len({evaluated.plan.key for evaluated in compared}) == 1,
                "differences": [_difference_json(task, op, compared) for op in biggest_differences(compared)],
                "routes": [route.to_json(task) for route in routes_between(task, *compared[:2])],
                "picture": str(picture) if picture else None,
            }
        )
        return
    console = stdout()
    for line in notes:
        console.print(line, soft_wrap=True)
    console.print(comparison_table(first, evaluated), "")
    console.print(differences_table(task, compared))
    if picture is not None:
        console.print(f"Written: {picture}", soft_wrap=True)


def _draw(task: Task, plans: Sequence[EvaluatedPlan], path: Path) -> None:
    """Write the picture of the first two plans."""
    from memplace_env.report.explanation.comparison_figure import two_maps
    from memplace_env.report.style import save_png

    save_png(two_maps(task, plans[0], plans[1]), path)


def _plan_json(task: Task, path: Path, evaluated: EvaluatedPlan) -> dict[str, Any]:
    from memplace_env.report.plans.evaluated_plan import native_baseline

    speedup = native_baseline(task).report.latency_ps / evaluated.report.latency_ps
    return {"plan": str(path), "speedup": speedup, "report": evaluated.report.summary()}


def _difference_json(task: Task, op: int, plans: Sequence[EvaluatedPlan]) -> dict[str, Any]:
    from memplace_env._lib.units import PS

    return {
        "op": op,
        "name": task.program.op_name[op],
        "type": task.program.op_type[op],
        "times_s": [float(evaluated.op_ps[op] * PS) for evaluated in plans],
    }
