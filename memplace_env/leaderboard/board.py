"""Submissions side by side: standings, as tables, JSON and a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memplace_env.leaderboard import references, tables
from memplace_env.leaderboard.cells import Knowledge, Latencies
from memplace_env.leaderboard.checks import check_originals, check_unique
from memplace_env.leaderboard.pinned import task_of
from memplace_env.leaderboard.standings import Row, standings
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.suite import Suite, load_suite
from memplace_env.threads import cached_property


@dataclass(frozen=True)
class SuiteBoard:
    """All submissions to one suite.

    Attributes:
        suite: which.
        submissions: to it, in the order of tracks and names.
    """

    suite: Suite
    submissions: tuple[Submission, ...]

    @cached_property
    def baselines(self) -> Latencies:
        """What is free, by track and environment id."""
        return {name: references.baselines(self.suite, self.suite.track(name)) for name in self.tracks}

    @cached_property
    def known(self) -> Knowledge:
        """What is known, by track and environment id."""
        return {name: references.known(self.suite, self.suite.track(name)) for name in self.tracks}

    @cached_property
    def tracks(self) -> list[str]:
        """Names of those that were played, in the suite's order."""
        return [name for name in self.suite.tracks if any(each.meta.track == name for each in self.submissions)]

    @cached_property
    def rows(self) -> list[Row]:
        """The standings."""
        return standings(self.suite, self.submissions, baselines=self.baselines, known=self.known)


@dataclass(frozen=True)
class Board:
    """The leaderboard.

    Attributes:
        suites: that were played, by name.
    """

    suites: tuple[SuiteBoard, ...]

    @classmethod
    def of(cls, submissions: Sequence[Submission]) -> Board:
        """The board of these submissions, in whatever order they come.

        Raises:
            LeaderboardError: if two to one suite and track have one name, or hold the same run.
        """
        ordered = sorted(submissions, key=lambda each: (each.meta.suite, each.meta.track, each.meta.name))
        names = list(dict.fromkeys(each.meta.suite for each in ordered))
        suites = []
        for name in names:
            mine = tuple(each for each in ordered if each.meta.suite == name)
            for track in load_suite(name).tracks:
                check_unique(each.meta.name for each in mine if each.meta.track == track)
            check_originals(mine)
            suites.append(SuiteBoard(load_suite(name), mine))
        return cls(tuple(suites))

    def markdown(self) -> str:
        """The tables."""
        return "\n".join(tables.markdown(board.rows, board.suite) for board in self.suites)

    def to_json(self) -> dict[str, Any]:
        """The rows as plain values, each with its suite."""
        rows = [{"suite": board.suite.name, **asdict(row)} for board in self.suites for row in board.rows]
        return {"rows": rows}

    def write_page(
        self,
        out: Path,
        title: str,
        *,
        plan_seeds: int | None = None,
        told: Callable[[int, int], None] = lambda *_: None,
    ) -> Path:
        """Draw the page into a folder.

        Args:
            out: the folder; a page that is there is replaced.
            title: of the page.
            plan_seeds: of how many seeds, from 0 on, plans are on it; None for all.
            told: how many environments' plans are written, of how many.

        Returns:
            Its index.html.

        Raises:
            LeaderboardError: if the folder holds something else, or Plotly is missing.
        """
        from memplace_env.leaderboard.page import build_page
        from memplace_env.leaderboard.page.data import page_data

        return build_page(out, page_data(title, self.suites, task_of, plan_seeds=plan_seeds, told=told))
