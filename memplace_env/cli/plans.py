"""`memplace simulate`, `validate` and `compare`: what saved plans are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.options import (
    AcceleratorFlag,
    BatchFlag,
    DimFlag,
    DtypeFlag,
    FusionFlag,
    JsonFlag,
    Model,
    ModelFlags,
    SimulatorFlag,
)

if TYPE_CHECKING:
    from memplace_env.envs.settings import Task
    from memplace_env.plan import MemoryPlan
    from memplace_env.simulator import Report

INVALID = 1

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan.json that memplace wrote.")]
PlanFiles = Annotated[list[Path], typer.Argument(metavar="PLAN...", help="Plans for the same model and chip.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: memplace simulate BERT out/BERT-nnp-i/plan.json")(simulate)
    app.command(epilog="Example: memplace validate BERT out/BERT-nnp-i/plan.json")(validate)
    app.command(epilog="Example: memplace compare BERT a/plan.json b/plan.json")(compare)


def simulate(
    model: Model,
    plan: PlanFile,
    accelerator: AcceleratorFlag = None,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
    simulator: SimulatorFlag = None,
    json: JsonFlag = False,
) -> None:
    """Time a saved plan, beside the compiler's own.

    How the program is built comes from the plan's settings; flags replace them. --json prints speedup,
    native_latency_s, report and hurts.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from memplace_env.views.hurts import hurts
    from memplace_env.views.tables import bound_of, hurts_table, result_table

    saved, task = _load(model, plan, flags)
    (_, native), report = _native(task), _timed(task, saved)
    found = hurts(task.program, task.accelerator, saved, report)
    if json:
        values = {
            "workload": task.program.name,
            "accelerator": task.accelerator.name,
            **_plan_json(plan, report, native),
        }
        print_json({**values, "native_latency_s": native.latency_s, "hurts": [hurt.to_json() for hurt in found]})
        return
    console = stdout()
    console.print(result_table(task.accelerator, report, native, bound_of(report)), "")
    console.print(hurts_table(found, report))


def validate(
    model: Model,
    plan: PlanFile,
    accelerator: AcceleratorFlag = None,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
    json: JsonFlag = False,
) -> None:
    """Check a saved plan and list every rule it breaks.

    Exit code 0: valid; 1: not valid; 2: the model or the plan cannot be read. --json prints valid and violations.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion)
    from memplace_env.plan import validate as violations_of

    saved, task = _load(model, plan, flags)
    broken = violations_of(task.program, task.accelerator, saved)
    if json:
        print_json({"plan": str(plan), "valid": not broken, "violations": [item._asdict() for item in broken]})
    elif broken:
        console = stdout()
        number = "1 violation" if len(broken) == 1 else f"{len(broken)} violations"
        console.print(f"{plan} is not valid: {number}.", markup=False, soft_wrap=True)
        for item in broken:
            console.print(f"{item.rule}: {item.message}", markup=False, soft_wrap=True)
    else:
        sizes = f"{len(saved.allocations)} blocks, {len(saved.transfers)} transfers"
        stdout().print(f"{plan} is valid: {sizes}.", markup=False, soft_wrap=True)
    if broken:
        raise typer.Exit(INVALID)


def compare(
    model: Model,
    plans: PlanFiles,
    accelerator: AcceleratorFlag = None,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
    simulator: SimulatorFlag = None,
    picture: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.png", help="Draw the first two plans one above the other.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Set plans of one program side by side, with the ops whose times differ most.

    The first plan's settings say how the program is built; flags replace them. A single plan is compared with the
    compiler's own. --out draws what each keeps in the fastest memory, and where the second gains. --json prints
    native, plans, differences and the picture.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from memplace_env.cli.output import check_folder
    from memplace_env.errors import MemPlaceError
    from memplace_env.plan import MemoryPlan
    from memplace_env.views.tables import biggest_differences, comparison_table, differences_table

    if picture is not None:
        if picture.suffix.lower() != ".png":
            raise MemPlaceError(f"--out {picture} is no name of a picture; end it in .png.")
        check_folder(picture.parent)
    first, task = _load(model, plans[0], flags)
    saved = [first, *(MemoryPlan.load(path) for path in plans[1:])]
    compiled, native = _native(task)
    reports = [(str(path), _timed(task, plan, path)) for path, plan in zip(plans, saved, strict=True)]
    opposed = reports if len(reports) > 1 else [("native", native), *reports]
    if picture is not None:
        _draw(task, opposed, saved if len(saved) > 1 else [compiled, *saved], picture)
    if json:
        differences = [
            _difference_json(task, op, opposed) for op in biggest_differences([report for _, report in opposed])
        ]
        listed = [_plan_json(path, report, native) for path, (_, report) in zip(plans, reports, strict=True)]
        print_json({"native": native.summary(), "plans": listed, "differences": differences, **_drawn(picture)})
        return
    console = stdout()
    console.print(comparison_table(task.accelerator, native, reports, native.lower_bound_s), "")
    console.print(differences_table(task.program, opposed))
    if picture is not None:
        console.print(f"Written: {picture}", markup=False, soft_wrap=True)


def _load(model: str, path: Path, flags: ModelFlags) -> tuple[MemoryPlan, Task]:
    from memplace_env.plan import MemoryPlan

    plan = MemoryPlan.load(path)
    return plan, flags.with_defaults_of(plan).task(model)


def _timed(task: Task, plan: MemoryPlan, path: Path | None = None) -> Report:
    from memplace_env.errors import PlanError
    from memplace_env.simulator import simulate as timed

    try:
        return timed(task.program, task.accelerator, plan, task.simulator)
    except PlanError as error:
        raise PlanError(f"{path}: {error}" if path else str(error)) from None


def _native(task: Task) -> tuple[MemoryPlan, Report]:
    from memplace_env.compiler import native

    plan = native(task.program, task.accelerator, task.simulator)
    return plan, task.simulator.run(task.program, task.accelerator, plan)


def _draw(task: Task, reports: list[tuple[str, Report]], plans: list[MemoryPlan], path: Path) -> None:
    """Write the picture of the first two."""
    from memplace_env.views.figure import save_png
    from memplace_env.views.two_maps import Named, two_maps

    named = [Named(name, plan, report) for (name, report), plan in zip(reports, plans, strict=True)]
    save_png(two_maps(task.program, task.accelerator, named[0], named[1]), path)


def _drawn(picture: Path | None) -> dict[str, str | None]:
    return {"picture": str(picture) if picture else None}


def _plan_json(path: Path, report: Report, native: Report) -> dict[str, Any]:
    return {"plan": str(path), "speedup": native.latency_ps / report.latency_ps, "report": report.summary()}


def _difference_json(task: Task, op: int, reports: list[tuple[str, Report]]) -> dict[str, Any]:
    return {
        "op": op,
        "name": task.program.op_name[op],
        "type": task.program.op_type[op],
        "times_s": [float((report.op_time_ps[op] + report.stall_ps[op]) * 1e-12) for _, report in reports],
    }
