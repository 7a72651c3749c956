"""Submissions side by side: standings, as tables, JSON and a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from memplace_env._lib.threads import cached_property
from memplace_leaderboard import leaderboard_tables, references
from memplace_leaderboard.cells import Knowledge, Latencies
from memplace_leaderboard.checks import OnProgress, check_originals
from memplace_leaderboard.free_rules import computed_rows, is_rule
from memplace_leaderboard.leaderboard_tables import Remarks
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.rerun_record import RerunRecord
from memplace_leaderboard.row_names import check_unique
from memplace_leaderboard.same_plans import same_plans
from memplace_leaderboard.standings import StandingsRow, standings
from memplace_leaderboard.submission import Meta, Standing, Submission
from memplace_leaderboard.suite import Suite, load_suite


@dataclass(frozen=True)
class SuiteBoard:
    """All submissions to one suite.

    Attributes:
        suite: the suite.
        submitted: all that were submitted to it, in the order of tracks and names.
    """

    suite: Suite
    submitted: tuple[Submission, ...]

    def of_track(self, name: str) -> list[Submission]:
        """Return what was submitted to a track."""
        return [played for played in self.submitted if played.meta.track == name]

    @cached_property
    def submissions(self) -> tuple[Submission, ...]:
        """The rows: what was submitted, without rules that do not search, and the rules as the board plays them."""
        searches = [played for played in self.submitted if not is_rule(played.meta)]
        rules = (computed_rows(self.suite, self.suite.track(name), self.of_track(name)) for name in self.tracks)
        return (*searches, *chain.from_iterable(rules))

    @cached_property
    def tracks(self) -> list[str]:
        """Names of the tracks that have submissions, in the suite's order."""
        return [name for name in self.suite.tracks if self.of_track(name)]

    @cached_property
    def baselines(self) -> Latencies:
        """Latencies of the baselines."""
        suite = self.suite
        return {name: references.baselines(suite, suite.track(name), self.of_track(name)) for name in self.tracks}

    @cached_property
    def known(self) -> Knowledge:
        """Best known plans and bounds."""
        return {name: references.known(self.suite, self.suite.track(name), self.submitted) for name in self.tracks}

    @cached_property
    def rows(self) -> list[StandingsRow]:
        """The standings."""
        return standings(self.suite, self.submissions, baselines=self.baselines, known=self.known)

    def remarks(self, mine: Meta | None = None) -> Remarks:
        """Return what is said of rows beside their figures; `mine` is the submission whose row is marked."""
        searches = [played for played in self.submissions if not played.computed]
        return Remarks(
            reruns={(p.meta.track, p.meta.name): p.rerun for p in searches if p.rerun is not None},
            same_plans=same_plans(self.suite, searches),
            mine=None if mine is None else (mine.track, mine.name),
        )


@dataclass(frozen=True)
class Board:
    """The leaderboard.

    Attributes:
        suites: the suites that have submissions, by name.
    """

    suites: tuple[SuiteBoard, ...]

    @classmethod
    def of(cls, submissions: Sequence[Submission], reruns: Mapping[str, RerunRecord] | None = None) -> Board:
        """Return the board of these submissions, which may come in any order.

        Rules that do not search are played by the board: submissions of them are left out.

        Args:
            submissions: all that are shown.
            reruns: records of those who keep the board, by the hash of a submission, see `rerun_record`.

        Raises:
            LeaderboardError: if two submissions to a suite and track have names that look alike, or hold the same run.
        """
        ordered = sorted(submissions, key=lambda played: (played.meta.suite, played.meta.track, played.meta.name))
        suites = []
        for name, group in groupby(ordered, key=lambda played: played.meta.suite):
            submitted = tuple(with_reruns(list(group), reruns or {}))
            for _, track in groupby(submitted, key=lambda played: played.meta.track):
                check_unique(played.meta.name for played in track)
            check_originals(submitted)
            suites.append(SuiteBoard(load_suite(name), submitted))
        return cls(tuple(suites))

    def markdown(self, mine: Meta | None = None, every: bool = True, marked: bool = True) -> str:
        """Return the tables of all suites.

        Args:
            mine: the submission whose tables are shown, and whose row is marked if `marked`.
            every: False for the tables of its suite and track at one budget alone: the track's main one, or the largest
                that the row is in.
        """
        parts = []
        for board in self.suites:
            own = mine if mine is not None and mine.suite == board.suite.name else None
            if every or own is not None:
                rows = board.rows if every or own is None else _of_one_table(board, own)
                parts.append(leaderboard_tables.markdown(rows, board.suite, board.remarks(own if marked else None)))
        return "\n".join(parts)

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
        mine: Meta | None = None,
        on_progress: OnProgress = lambda done, of: None,
    ) -> Path:
        """Draw the page into a folder.

        Args:
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
        from memplace_leaderboard.page.data import page_data
        from memplace_leaderboard.page.site import build_page

        data = page_data(title, self.suites, task_of, plan_seeds=plan_seeds, mine=mine, on_progress=on_progress)
        return build_page(out, data)


def with_reruns(submissions: Sequence[Submission], reruns: Mapping[str, RerunRecord]) -> Iterator[Submission]:
    """Yield the submissions to a suite with their records, and whether their machines are those of another one."""
    owners = Counter(seed for played in submissions for seed in played.meta.machine_seeds or ())
    for played in submissions:
        public = bool(played.meta.machines_of) or any(owners[seed] > 1 for seed in played.meta.machine_seeds or ())
        yield replace(played, rerun=reruns.get(played.sha256), public_machines=public)


def _of_one_table(board: SuiteBoard, own: Meta) -> list[StandingsRow]:
    """Return the rows of a submission's track at one budget, and those that the board played."""
    rows = [row for row in board.rows if row.track == own.track]
    budgets = [row.budget for row in rows if row.submission == own.name] or [row.budget for row in rows]
    main = board.suite.track(own.track).main_budget
    budget = main if main in budgets or not budgets else budgets[-1]
    return [row for row in rows if row.budget == budget or row.standing is Standing.COMPUTED]
