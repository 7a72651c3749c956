"""`memplace explain`: how and why a saved plan differs from the compiler's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env.cli.console import note, print_json, stdout
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
from memplace_env.cli.plans import PlanFile

if TYPE_CHECKING:
    from memplace_env.views.analysis import Explanation

PICTURE = "explain.png"
_MOST = 8


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace explain BERT out/BERT-nnp-i/plan.json")(explain)


def explain(
    model: Model,
    plan: PlanFile,
    accelerator: AcceleratorFlag = None,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
    simulator: SimulatorFlag = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for explain.png, or a .png; default out/MODEL-ACCELERATOR.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show how and why a saved plan differs from the compiler's own, and draw it: explain.png.

    How the program is built comes from the plan's settings; flags replace them. --json prints for weights and
    activations the bytes by native's level and the plan's (moved_bytes), contiguity and levels by op, and op_saved_s,
    by_type, gains, losses and the picture.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.compiler import native
    from memplace_env.plan import MemoryPlan
    from memplace_env.simulator import simulate
    from memplace_env.views.analysis import explain_plan
    from memplace_env.views.explain_tables import explain_tables
    from memplace_env.views.units import ratio, seconds

    saved = MemoryPlan.load(plan)
    task = flags.with_defaults_of(saved).task(model)
    picture = _picture_path(out or default_folder(model, task.accelerator.name))
    check_folder(picture.parent)
    subject = task.program, task.accelerator
    report = simulate(*subject, saved, task.simulator)
    compiled = native(*subject, task.simulator)
    found = explain_plan(*subject, compiled, task.simulator.run(*subject, compiled), saved, report)
    drawn = str(picture) if _draw(found, picture) else None
    if json:
        print_json({"plan": str(plan), **found.to_json(_MOST), "picture": drawn})
        return
    console = stdout()
    head = f"{task.program.name} ({task.program.dtype}) on {task.accelerator.name}: {seconds(report.latency_s)}, "
    head += f"{ratio(found.speedup)} over native"
    console.print(head, style="bold", markup=False, soft_wrap=True)
    console.print()
    for table in explain_tables(found, _MOST):
        console.print(table, "")
    if drawn:
        console.print(f"Written: {drawn}", markup=False, soft_wrap=True)


def _picture_path(out: Path) -> Path:
    """What `--out` means: a picture, or the folder for one."""
    return out if out.suffix.lower() == ".png" else out / PICTURE


def _draw(found: Explanation, path: Path) -> bool:
    """Write the picture; False if it cannot be drawn, and then an old one does not stay either."""
    from memplace_env.cli.output import write_folder
    from memplace_env.views.explain_figure import explain_figure
    from memplace_env.views.figure import VisualizationError, to_png

    try:
        content = to_png(explain_figure(found))
    except VisualizationError as error:
        note(f"No picture: {error}")
        path.unlink(missing_ok=True)
        return False
    write_folder(path.parent, {path.name: content})
    return True
