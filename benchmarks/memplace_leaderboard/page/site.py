"""The page's folder: written beside its destination, then renamed, so that it is never seen half written."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.lazy import required
from memplace_env.report.plan_page.plans_page import script_json, shared_files, texts_in
from memplace_leaderboard.board import Board
from memplace_leaderboard.checks import OnProgress
from memplace_leaderboard.page.data import PageData, page_data
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.submission import Meta

MARKER: Final = ".memplace-page"
"""File that marks a folder as a page, which may be replaced."""
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def write_page(
    board: Board,
    out: Path,
    title: str,
    *,
    plan_seeds: int | None = None,
    mine: Meta | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> Path:
    """Draw a leaderboard's page into a folder.

    Args:
        board: the leaderboard.
        out: the folder; an older page in it is replaced.
        title: title of the page.
        plan_seeds: number of seeds, from 0 on, whose plans are on it; None for all.
        mine: the submission whose row is marked.
        on_progress: called with the number of environments whose plans are written, and of all.

    Returns:
        The path of its index.html.

    Raises:
        LeaderboardError: if the folder holds something else, or Plotly is missing.
    """
    data = page_data(title, board.suites, task_of, plan_seeds=plan_seeds, mine=mine, on_progress=on_progress)
    return build_page(out, data)


def build_page(out: Path, data: PageData) -> Path:
    """Write the page into a folder, whole or not at all; an older page there is replaced.

    Args:
        out: the folder; parents are made.
        data: its contents. The same data gives the same bytes.

    Returns:
        The path of the page's `index.html`.

    Raises:
        LeaderboardError: if `out` holds something else, or plotly is not installed.
        VisualizationError: if the data is not plain JSON.
        OSError: if the folder cannot be written; an older page then stays as it was.
    """
    check_destination(out)
    out = out.absolute()
    plotly = _plotly()
    out.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        fresh = work / "new"
        fresh.mkdir()
        _write(fresh, data, plotly)
        if out.exists():
            out.rename(work / "old")
        try:
            fresh.rename(out)
        except BaseException:
            if (work / "old").exists():
                (work / "old").rename(out)
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out / "index.html"


def check_destination(out: Path) -> None:
    """Check before long work that the page can be written to a folder.

    Raises:
        LeaderboardError: if `out` is a file or a link, or a folder with other contents than a page, or plotly is not
            installed.
    """
    _plotly()
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise LeaderboardError(f"--out {out} is not a folder; pass another one.")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise LeaderboardError(f"--out {out} holds files that are not a page of ours; pass an empty or new folder.")


def _write(folder: Path, data: PageData, plotly: str) -> None:
    (folder / MARKER).write_text("A page that memplace made; it may be replaced by a newer one.\n", encoding="utf-8")
    (folder / "plotly.min.js").write_text(plotly, encoding="utf-8")
    for name, text in {**shared_files(), **texts_in("static", "memplace_leaderboard.page")}.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "data.js").write_text(f"window.memplaceData = {script_json(data.tables())};\n", encoding="utf-8")
    (folder / "plans").mkdir()
    for env_id, document in data.plans:
        if not _SAFE_ID.fullmatch(env_id):
            raise LeaderboardError(f"{env_id!r} cannot be the name of a file; ids have letters, digits and ._+- only.")
        script = f"window.memplacePlans({script_json(env_id)}, {script_json(document)});\n"
        (folder / "plans" / f"{env_id}.js").write_text(script, encoding="utf-8")


def _plotly() -> str:
    return str(required("plotly.offline", "The page needs", "plotly", "page", LeaderboardError).get_plotlyjs())
