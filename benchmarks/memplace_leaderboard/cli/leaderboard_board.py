"""`memplace leaderboard table` and `page`: submissions side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.shared_options import JsonFlag

if TYPE_CHECKING:
    from memplace_leaderboard.checks import OnProgress
    from memplace_leaderboard.rerun_record import RerunRecord
    from memplace_leaderboard.submission import Submission

Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that 'memplace leaderboard run' wrote.")]
Trust = Annotated[bool, typer.Option("--trust", help="Read the submissions without replaying their plans.")]
Reruns = Annotated[
    Path | None,
    typer.Option(
        "--reruns",
        metavar="FILE",
        help="Record of 'memplace leaderboard rerun' that you trust; rows that are not in it are declared.",
    ),
]


def table(
    folders: Folders,
    reruns: Reruns = None,
    every: Annotated[
        bool, typer.Option("--all", help="All suites, tracks and budgets, not only the main table of the first folder.")
    ] = False,
    trust: Trust = False,
    json: JsonFlag = False,
) -> None:
    """Print the standings as Markdown, after verifying the submissions; the row of the first folder is marked.

    Rows that were run again are ranked; declared ones are in a table below. --json prints all rows.
    """
    from memplace_leaderboard.board import Board

    submissions = _all(folders, trust)
    board = Board.of(submissions, _records(reruns))
    if json:
        print_json(board.to_json())
        return
    sys.stdout.write(board.markdown(submissions[0].meta, every))


def page(
    folders: Folders,
    out: Annotated[Path, typer.Option("--out", help="Folder of the page; index.html is in it.")],
    title: Annotated[str, typer.Option("--title", help="Title of the page.")] = "MemPlace leaderboard",
    plan_seeds: Annotated[
        int | None,
        typer.Option("--plan-seeds", min=1, help="Show plans of so many seeds only; a plan takes 2 to 50 kB."),
    ] = None,
    reruns: Reruns = None,
    mine: Annotated[bool, typer.Option("--mine", help="Mark the row of the first folder.")] = False,
    trust: Trust = False,
    json: JsonFlag = False,
) -> None:
    """Draw the leaderboard as a page that needs no server and no network, after verifying the submissions."""
    from memplace_env.cli.agent_run import new_bar
    from memplace_leaderboard.board import Board
    from memplace_leaderboard.page.site import check_destination

    check_destination(out)
    submissions = _all(folders, trust)
    board = Board.of(submissions, _records(reruns))
    with new_bar(counted=True) as bar:
        shown = bar.add_task("drawing plans", total=None)
        index = board.write_page(
            out,
            title,
            plan_seeds=plan_seeds,
            mine=submissions[0].meta if mine else None,
            on_progress=lambda done, of: bar.update(shown, completed=done, total=of),
        )
    if json:
        print_json({"page": str(index)})
        return
    stdout().print(f"Written: {index}", soft_wrap=True)


def _records(path: Path | None) -> Mapping[str, RerunRecord]:
    from memplace_leaderboard.rerun_record import read_records

    return {} if path is None else read_records(path)


def _all(folders: Sequence[Path], trust: bool) -> list[Submission]:
    """Return the submissions, or raise the first error; equal names are refused before anything is replayed."""
    from memplace_leaderboard.folder import META
    from memplace_leaderboard.meta_file import read_meta
    from memplace_leaderboard.row_names import check_unique
    from memplace_leaderboard.verifying import read, verified

    metas = [read_meta(folder / META) for folder in folders if (folder / META).is_file()]
    for where in {(meta.suite, meta.track) for meta in metas}:
        check_unique(meta.name for meta in metas if (meta.suite, meta.track) == where)
    if trust:
        return [read(folder) for folder in folders]
    with replaying() as on_progress:
        return verified(folders, on_progress)


@contextmanager
def replaying() -> Iterator[OnProgress]:
    """Show a progress bar for replayed plans."""
    from memplace_env.cli.agent_run import new_bar

    with new_bar(counted=True) as bar:
        shown = bar.add_task("replaying", total=None)
        yield lambda done, of: bar.update(shown, completed=done, total=of)
