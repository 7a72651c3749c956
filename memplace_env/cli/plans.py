"""`memplace simulate`, `validate` and `compare`: what saved plans are worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.options import JsonFlag, Model, PlanFile
from memplace_env.cli.saved_plans import judge, load_plan

if TYPE_CHECKING:
    from memplace_env.analysis import Judged
    from memplace_env.task import Task

INVALID = 1
"""Exit code if a plan is not valid."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: memplace simulate BERT out/BERT-nnp-i/plan.json")(simulate)
    app.command(epilog="Example: memplace validate BERT out/BERT-nnp-i/plan.json")(validate)
    app.command(epilog="Example: memplace compare BERT a/plan.json b/plan.json")(compare)


@model_flags()
def simulate(model: Model, plan: PlanFile, flags: ModelFlags, json: JsonFlag = False) -> None:
    """Time a saved plan, beside the compiler's own.

    How the program is built comes from the plan's settings; flags replace them, and name a chip that is not shipped.
    --json prints speedup, native_latency_s, report and hurts.
    """
    from memplace_env.analysis import find_hurts, native_baseline
    from memplace_env.views.tables.results import hurts_table, result_table

    task, saved = load_plan(model, plan, flags)
    judged = judge(task, saved)
    hurts = find_hurts(task, judged)
    if json:
        print_json(
            {
                "workload": task.program.name,
                "accelerator": task.accelerator.name,
                **_plan_json(task, plan, judged),
                "native_latency_s": native_baseline(task).report.latency_s,
                "hurts": [hurt.to_json() for hurt in hurts],
            }
        )
        return
    console = stdout()
    console.print(result_table(task, judged), "")
    console.print(hurts_table(hurts, judged))


@model_flags(without=["simulator"])
def validate(model: Model, plan: PlanFile, flags: ModelFlags, json: JsonFlag = False) -> None:
    """Check a saved plan and list every rule it breaks.

    Exit code 0: valid; 1: not valid; 2: the model or the plan cannot be read. --json prints valid and violations.
    """
    from memplace_env.plan import violations

    task, saved = load_plan(model, plan, flags)
    broken = violations(task, saved)
    if json:
        print_json({"plan": str(plan), "valid": not broken, "violations": [item._asdict() for item in broken]})
    elif broken:
        console = stdout()
        number = "1 violation" if len(broken) == 1 else f"{len(broken)} violations"
        console.print(f"{plan} is not valid: {number}.", soft_wrap=True)
        for item in broken:
            console.print(f"{item.rule}: {item.message}", soft_wrap=True)
    else:
        sizes = f"{len(saved.allocations)} blocks, {len(saved.transfers)} transfers"
        stdout().print(f"{plan} is valid: {sizes}.", soft_wrap=True)
    if broken:
        raise typer.Exit(INVALID)


@model_flags()
def compare(
    model: Model,
    plans: Annotated[list[Path], typer.Argument(metavar="PLAN...", help="Plans for the same model and chip.")],
    *,
    flags: ModelFlags,
    picture: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.png", help="Draw the first two plans one above the other.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Set plans of one program side by side, with the ops whose times differ most.

    The first plan's settings say how the program is built; flags replace them. A single plan is compared with the
    compiler's own. --out draws what each keeps in the memories that decide, and where the second gains. --json prints
    native, plans, differences, routes (what the first two serve from different memories, and what that saves) and
    the picture.
    """
    from memplace_env.analysis import biggest_differences, native_baseline, routes_between
    from memplace_env.cli.output import check_folder
    from memplace_env.errors import MemPlaceError
    from memplace_env.plan import MemoryPlan
    from memplace_env.views.tables.results import comparison_table, differences_table

    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise MemPlaceError(f"--out {picture} is no name of a picture; end it in .png.")
        check_folder(picture.parent)
    task, first = load_plan(model, plans[0], flags)
    saved = [first, *(MemoryPlan.load(path) for path in plans[1:])]
    judged = [judge(task, plan, path) for path, plan in zip(plans, saved, strict=True)]
    native = native_baseline(task)
    opposed = judged if len(judged) > 1 else [native, *judged]
    if picture is not None:
        _draw(task, opposed, picture)
    if json:
        print_json(
            {
                "native": native.report.summary(),
                "plans": [_plan_json(task, path, plan) for path, plan in zip(plans, judged, strict=True)],
                "differences": [_difference_json(task, op, opposed) for op in biggest_differences(opposed)],
                "routes": [route.to_json(task) for route in routes_between(task, *opposed[:2])],
                "picture": str(picture) if picture else None,
            }
        )
        return
    console = stdout()
    console.print(comparison_table(task, judged), "")
    console.print(differences_table(task, opposed))
    if picture is not None:
        console.print(f"Written: {picture}", soft_wrap=True)


def _draw(task: Task, plans: Sequence[Judged], path: Path) -> None:
    """Write the picture of the first two."""
    from memplace_env.views.figures.comparison import two_maps
    from memplace_env.views.style import save_png

    save_png(two_maps(task, plans[0], plans[1]), path)


def _plan_json(task: Task, path: Path, judged: Judged) -> dict[str, Any]:
    from memplace_env.analysis import native_baseline

    speedup = native_baseline(task).report.latency_ps / judged.report.latency_ps
    return {"plan": str(path), "speedup": speedup, "report": judged.report.summary()}


def _difference_json(task: Task, op: int, plans: Sequence[Judged]) -> dict[str, Any]:
    from memplace_env.units import PS

    return {
        "op": op,
        "name": task.program.op_name[op],
        "type": task.program.op_type[op],
        "times_s": [float(judged.op_ps[op] * PS) for judged in plans],
    }
