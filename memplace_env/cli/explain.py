"""`memplace explain`: how and why a saved plan differs from the compiler's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.saved_plans import NamedPlan, evaluate_saved, load_plan, named_plan
from memplace_env.cli.shared_options import JsonFlag

if TYPE_CHECKING:
    from memplace_env.report.explanation.explanation import Explanation

PICTURE = "explain.png"
_MOST = 8
"""Rows of the tables of gains and losses, and entries in the JSON. Our choice."""


@model_flags()
def explain(
    plan: NamedPlan,
    *,
    flags: ModelFlags,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for explain.png, or a .png; default out/MODEL-ACCELERATOR[-SIMULATOR]."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show how and why a saved plan differs from the compiler's own, and draw it: explain.png.

    The plan's settings say how the program is built; flags replace them. --json prints the bytes of weights and of
    activations by native's level and the plan's (moved_bytes), their contiguity and levels by op, then op_saved_s,
    by_type, gains, losses and the picture.
    """
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.report.explanation.explanation import explain_plan
    from memplace_env.report.explanation.explanation_tables import explanation_tables
    from memplace_env.report.plans.headlines import headline

    model, path = named_plan(plan)
    task, saved = load_plan(model, path, flags)
    folder = out or default_folder(model or task.program.name, task.accelerator.name, flags.other_simulator)
    picture = _picture_path(folder)
    check_folder(picture.parent)
    explanation = explain_plan(task, evaluate_saved(task, saved))
    drawn = str(picture) if _draw(explanation, picture) else None
    if json:
        print_json({"plan": str(path), **explanation.to_json(_MOST), "picture": drawn})
        return
    console = stdout()
    console.print(headline(task, explanation.evaluated.report), style="bold", soft_wrap=True)
    console.print()
    for table in explanation_tables(explanation, _MOST):
        console.print(table, "")
    if drawn:
        console.print(f"Written: {drawn}", soft_wrap=True)


def _picture_path(out: Path) -> Path:
    """Return the picture that `--out` names, or the one in the folder that it names."""
    return out if out.suffix.lower() == ".png" else out / PICTURE


def _draw(explanation: Explanation, path: Path) -> bool:
    """Write the picture; if it cannot be drawn, remove an old one and return False."""
    from memplace_env._lib.errors import VisualizationError
    from memplace_env._lib.files import write_atomically
    from memplace_env.report.explanation.explanation_figure import explanation_figure
    from memplace_env.report.style import to_png

    try:
        content = to_png(explanation_figure(explanation))
    except VisualizationError as error:
        note(f"No picture: {error}")
        path.unlink(missing_ok=True)
        return False
    write_atomically(path, content)
    return True
