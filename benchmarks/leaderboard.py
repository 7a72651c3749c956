"""The tables of our own submissions.

python -m benchmarks.leaderboard            # verifies all of them and prints the main tables, a suite each
python -m benchmarks.leaderboard --write    # and puts them into the documents, and all rows into docs/data/
python -m benchmarks.leaderboard --suites sliced-v1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from benchmarks.leaderboard_black_box import SUITE as DRAWN
from benchmarks.leaderboard_black_box import shares_table
from benchmarks.tables import DataFile, publish
from memplace_leaderboard.board import Board
from memplace_leaderboard.folder import META
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.rerun_record import read_records
from memplace_leaderboard.standings import StandingsRow
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import suite_names
from memplace_leaderboard.verifying import read, verified

SUBMISSIONS = Path(__file__).parent / "submissions"
RERUNS = Path(__file__).parent / "reruns.jsonl"
"""The record of our own reruns; see `memplace_leaderboard.rerun_record`."""
DOCS = Path(__file__).parents[1] / "docs"
DOCUMENT = DOCS / "leaderboard.md"
DRAWN_DOCUMENT = DOCS / "black-box.md"
ROWS = "leaderboard.csv"


def folders(suite: str) -> list[Path]:
    """Return the folders of our submissions to a suite."""
    return sorted(path.parent for path in SUBMISSIONS.glob(f"*/{META}") if read_meta(path).suite == suite)


def board_of(submissions: Sequence[Submission]) -> Board:
    """Return the board of our submissions, with the record of our reruns."""
    return Board.of(submissions, read_records(RERUNS) if RERUNS.exists() else {})


def table(board: Board, submissions: Sequence[Submission]) -> str:
    """Return the main table of a suite's search track; of machines that are drawn, the shares alone."""
    if board.suites[0].suite.name == DRAWN.name:
        return shares_table(board.suites[0].rows).strip()
    first = next(played.meta for played in submissions if played.meta.track == "search")
    return board.markdown(first, every=False, marked=False).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables in the documents")
    parser.add_argument("--trust", action="store_true", help="read the submissions without replaying their plans")
    parser.add_argument("--suites", nargs="+", choices=suite_names(), default=suite_names(), help="default: all")
    options = parser.parse_args()
    heads = ("suite", *(field.name for field in fields(StandingsRow) if field.name != "left_out"))
    rows: list[list[object]] = []
    for suite in options.suites:
        if not folders(suite):
            continue
        submissions = [read(each) for each in folders(suite)] if options.trust else verified(folders(suite))
        board = board_of(submissions)
        for row in board.suites[0].rows:
            values = {"suite": suite, **asdict(row)}
            rows.append([_plain(values[head]) for head in heads])
        shown = {suite: table(board, submissions)}
        document = DRAWN_DOCUMENT if suite == DRAWN.name else DOCUMENT
        has_place = f"<!-- {suite}:begin -->" in document.read_text(encoding="utf-8")
        publish(shown, [document] if options.write and has_place else [])
    if options.write and options.suites == suite_names():
        (DOCS / "data" / ROWS).write_text(DataFile(heads, rows).csv(), encoding="utf-8")


def _plain(value: object) -> object:
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
