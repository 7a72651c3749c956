"""The tables of our own submissions.

python -m benchmarks.leaderboard            # verifies all of them and prints the tables, a suite each
python -m benchmarks.leaderboard --write    # and puts them into docs/leaderboard.md
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.tables import write_between_markers
from memplace_env.leaderboard.board import Board
from memplace_env.leaderboard.folder import META
from memplace_env.leaderboard.meta_file import read_meta
from memplace_env.leaderboard.suite import suite_names
from memplace_env.leaderboard.verifying import verified

SUBMISSIONS = Path(__file__).parent / "submissions"
DOCUMENT = Path(__file__).parents[1] / "docs" / "leaderboard.md"


def folders(suite: str) -> list[Path]:
    """Our submissions to a suite."""
    return sorted(path.parent for path in SUBMISSIONS.glob(f"*/{META}") if read_meta(path).suite == suite)


def table(suite: str) -> str:
    """The standings of our submissions to a suite, after replaying them."""
    return Board.of(verified(folders(suite))).markdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the tables in docs/leaderboard.md")
    options = parser.parse_args()
    for suite in suite_names():
        content = table(suite)
        print(content)
        if options.write:
            write_between_markers(DOCUMENT, suite, content)


if __name__ == "__main__":
    main()
