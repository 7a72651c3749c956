"""The tables of our own submissions.

python -m benchmarks.leaderboard            # verifies all of them and prints the tables, a suite each
python -m benchmarks.leaderboard --write    # and puts them into docs/leaderboard.md
python -m benchmarks.leaderboard --suites sliced-v1
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.leaderboard_black_box import SUITE as DRAWN
from benchmarks.leaderboard_black_box import shares_table
from benchmarks.tables import publish
from memplace_env.leaderboard.board import Board
from memplace_env.leaderboard.folder import META
from memplace_env.leaderboard.meta_file import read_meta
from memplace_env.leaderboard.suite import suite_names
from memplace_env.leaderboard.verifying import verified

SUBMISSIONS = Path(__file__).parent / "submissions"
DOCUMENT = Path(__file__).parents[1] / "docs" / "leaderboard.md"


def folders(suite: str) -> list[Path]:
    """Return the folders of our submissions to a suite."""
    return sorted(path.parent for path in SUBMISSIONS.glob(f"*/{META}") if read_meta(path).suite == suite)


def table(suite: str) -> str:
    """Replay our submissions to a suite and return their standings; of machines that are drawn, the shares alone."""
    submissions = verified(folders(suite))
    return shares_table(submissions) if suite == DRAWN.name else Board.of(submissions).markdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/leaderboard.md")
    parser.add_argument("--suites", nargs="+", choices=suite_names(), default=suite_names(), help="default: all")
    options = parser.parse_args()
    for suite in options.suites:
        publish({suite: table(suite)}, [DOCUMENT] if options.write else [])


if __name__ == "__main__":
    main()
