"""`memplace explain`: how and why a saved plan differs from the compiler's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env._lib.errors import MemPlaceError
from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, plan_flags
from memplace_env.cli.saved_plans import NamedPlan, in_one_task, load_evaluated, named_plan
from memplace_env.cli.shared_options import FileFlag, JsonFlag

if TYPE_CHECKING:
    from memplace_env.placement.task import Task
    from memplace_env.report.explanation.explanation import Explanation
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

PICTURE = "explain.png"
_MOST = 8
"""Rows of the tables of gains and losses, and entries in the JSON. Our choice."""


@plan_flags()
def explain(
    plan: NamedPlan,
    *,
    flags: ModelFlags,
    out: FileFlag = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE.html", help="Write a page that shows blocks by address and time."),
    ] = None,
    beside: Annotated[
        list[Path] | None, typer.Option("--beside", metavar="PLAN", help="Another plan for the page; repeat.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Show how and why a saved plan differs from the compiler's own, and draw it.

    --out names the picture or its folder, out/MODEL-ACCELERATOR if left out.

    --html writes one file that any browser opens, without a network: two plans one above the other. These are native's
    and this one, or this one and another (--beside). You can zoom, search for a tensor, and see what each block saves.

    The plan's settings say how the program is built. --json prints the bytes of weights and of
    activations by native's level and the plan's (moved_bytes), their contiguity and levels by op, then op_saved_s,
    by_type, gains, losses, the picture and the page, the simulator of these times and that of the search (found_with).
    """
    from memplace_env._lib.files import write_atomically
    from memplace_env.cli.console import check_folder, default_folder
    from memplace_env.report.explanation.explanation import explain_plan
    from memplace_env.report.explanation.explanation_tables import explanation_tables
    from memplace_env.report.plans.headlines import headline, simulator_notes

    _check_page(html, beside)
    model, path = named_plan(plan)
    tasks, plans = load_evaluated(model, [path, *(beside or ())], flags)
    task = tasks[0]
    name = flags.of_id(model)[0] if model else task.program.name
    folder = out or default_folder(name, task.accelerator.name, flags.other_simulator)
    picture = _picture_path(folder)
    check_folder(picture.parent)
    if html is not None:
        check_folder(html.parent, "--html")
    explanation, notes = explain_plan(task, plans[0]), simulator_notes(task, plans)
    drawn = str(picture) if _draw(explanation, picture) else None
    if html is not None:
        write_atomically(html, _page(tasks, plans, notes))
    if json:
        print_json({"plan": str(path), **explanation.to_json(_MOST), "picture": drawn, "page": html and str(html)})
        return
    console = stdout()
    console.print(headline(task, explanation.evaluated.report), style="bold", soft_wrap=True)
    for line in notes:
        console.print(line, soft_wrap=True)
    console.print()
    for table in explanation_tables(explanation, _MOST):
        console.print(table, "")
    if written := ", ".join(str(file) for file in (drawn, html) if file):
        console.print(f"Written: {written}", soft_wrap=True)


def _check_page(html: Path | None, beside: list[Path] | None) -> None:
    """Check the flags of the page.

    Raises:
        MemPlaceError: if its name does not end in .html, or there are plans for it and no name.
    """
    if html is None and beside:
        raise MemPlaceError("--beside is for the page; pass --html FILE.html too, or see 'memplace compare'.")
    if html is not None and html.suffix.lower() not in (".html", ".htm"):
        raise MemPlaceError(f"--html {html} must be the name of a page; end it in .html.")


def _page(tasks: list[Task], plans: list[EvaluatedPlan], notes: list[str]) -> str:
    """Return the page of native's plan and these, of which the last two are drawn first, with notes above them."""
    from memplace_env.report.plan_page.plans_page import plans_page
    from memplace_env.report.plans.evaluated_plan import native_baseline

    task, shown = in_one_task([tasks[0], *tasks], [native_baseline(tasks[0]), *plans])
    return plans_page(task, shown, notes)


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
