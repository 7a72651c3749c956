"""The submissions to one suite with the references of their scores."""

from __future__ import annotations

from dataclasses import dataclass

from memplace_env._lib.threads import cached_property
from memplace_leaderboard import references
from memplace_leaderboard.cells import Knowledge, Latencies
from memplace_leaderboard.free_rules import computed_rows, is_rule
from memplace_leaderboard.leaderboard_tables import Remarks
from memplace_leaderboard.same_plans import same_plans
from memplace_leaderboard.standings import StandingsRow, standings
from memplace_leaderboard.submission import Meta, Submission
from memplace_leaderboard.suite import Suite


@dataclass(frozen=True)
class SuiteBoard:
    """All submissions to one suite.

    Attributes:
        suite: the suite.
        submitted: all that were submitted to it, in the order of tracks and names.
    """

    suite: Suite
    submitted: tuple[Submission, ...]

    @cached_property
    def submissions(self) -> tuple[Submission, ...]:
        """The rows: what was submitted, without rules that do not search, and the rules as the board plays them."""
        searches = [played for played in self.submitted if not is_rule(played.meta)]
        rules = [
            row
            for name in self.tracks
            for row in computed_rows(
                self.suite,
                self.suite.track(name),
                [played for played in self.submitted if played.meta.track == name],
            )
        ]
        return (*searches, *rules)

    @cached_property
    def tracks(self) -> list[str]:
        """Names of the tracks that have submissions, in the suite's order."""
        played = {submission.meta.track for submission in self.submitted}
        return [name for name in self.suite.tracks if name in played]

    @cached_property
    def baselines(self) -> Latencies:
        """Latencies of the baselines."""
        return {
            name: references.baselines(
                self.suite, self.suite.track(name), [played for played in self.submitted if played.meta.track == name]
            )
            for name in self.tracks
        }

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
