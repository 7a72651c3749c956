"""Submissions side by side: standings, as tables, JSON and a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from memplace_env.leaderboard import leaderboard_tables
from memplace_env.leaderboard.checks import OnProgress, check_originals, check_unique
from memplace_env.leaderboard.pinned import task_of
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.suite import load_suite
from memplace_env.leaderboard.suite_board import SuiteBoard


@dataclass(frozen=True)
class Board:
    """The leaderboard.

    Attributes:
        suites: the suites that have submissions, by name.
    """

    suites: tuple[SuiteBoard, ...]

    @classmethod
    def of(cls, submissions: Sequence[Submission]) -> Board:
        """Return the board of these submissions, which may come in any order.

        Raises:
            LeaderboardError: if two submissions to one suite and track have one name, or hold the same run.
        """
        ordered = sorted(submissions, key=lambda played: (played.meta.suite, played.meta.track, played.meta.name))
        suites = []
        for name, group in groupby(ordered, key=lambda played: played.meta.suite):
            submissions = tuple(group)
            for _, track in groupby(submissions, key=lambda played: played.meta.track):
                check_unique(played.meta.name for played in track)
            check_originals(submissions)
            suites.append(SuiteBoard(load_suite(name), submissions))
        return cls(tuple(suites))

    def markdown(self) -> str:
        """Return the tables of all suites."""
        return "\n".join(leaderboard_tables.markdown(board.rows, board.suite) for board in self.suites)

    def to_json(self) -> dict[str, Any]:
        """Return the rows of all suites as plain values, each with its suite."""
        rows = [{"suite": board.suite.name, **asdict(row)} for board in self.suites for row in board.rows]
        return {"rows": rows}

    def write_page(
        self,
        out: Path,
        title: str,
        *,
        plan_seeds: int | None = None,
        on_progress: OnProgress = lambda done, of: None,
    ) -> Path:
        """Draw the page into a folder.

        Args:
            out: the folder; an older page in it is replaced.
            title: title of the page.
            plan_seeds: number of seeds, from 0 on, whose plans are on it; None for all.
            on_progress: called with the number of environments whose plans are written, and of all.

        Returns:
            The path of its index.html.

        Raises:
            LeaderboardError: if the folder holds something else, or Plotly is missing.
        """
        from memplace_env.leaderboard.page import build_page
        from memplace_env.leaderboard.page.data import page_data

        return build_page(out, page_data(title, self.suites, task_of, plan_seeds=plan_seeds, on_progress=on_progress))
