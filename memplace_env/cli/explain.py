"""`memplace explain`: how and why a saved plan differs from the compiler's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.options import JsonFlag, Model, PlanFile
from memplace_env.cli.saved_plans import judge, load_plan

if TYPE_CHECKING:
    from memplace_env.analysis import Explanation

PICTURE = "explain.png"
_MOST = 8


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace explain BERT out/BERT-nnp-i/plan.json")(explain)


@model_flags()
def explain(
    model: Model,
    plan: PlanFile,
    *,
    flags: ModelFlags,
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
    from memplace_env.analysis import explain_plan
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.views.tables.explanation import explanation_tables
    from memplace_env.views.text.headlines import headline

    task, saved = load_plan(model, plan, flags)
    picture = _picture_path(out or default_folder(model, task.accelerator.name))
    check_folder(picture.parent)
    explanation = explain_plan(task, judge(task, saved))
    drawn = str(picture) if _draw(explanation, picture) else None
    if json:
        print_json({"plan": str(plan), **explanation.to_json(_MOST), "picture": drawn})
        return
    console = stdout()
    console.print(headline(task, explanation.judged.report), style="bold", soft_wrap=True)
    console.print()
    for table in explanation_tables(explanation, _MOST):
        console.print(table, "")
    if drawn:
        console.print(f"Written: {drawn}", soft_wrap=True)


def _picture_path(out: Path) -> Path:
    """What `--out` means: a picture, or the folder for one."""
    return out if out.suffix.lower() == ".png" else out / PICTURE


def _draw(explanation: Explanation, path: Path) -> bool:
    """Write the picture; False if it cannot be drawn, and then an old one does not stay either."""
    from memplace_env.errors import VisualizationError
    from memplace_env.files import write_atomically
    from memplace_env.views.figures.explanation import explanation_figure
    from memplace_env.views.style import to_png

    try:
        content = to_png(explanation_figure(explanation))
    except VisualizationError as error:
        note(f"No picture: {error}")
        path.unlink(missing_ok=True)
        return False
    write_atomically(path, content)
    return True
