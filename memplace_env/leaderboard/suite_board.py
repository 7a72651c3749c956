"""The submissions to one suite with the references of their scores."""

from __future__ import annotations

from dataclasses import dataclass

from memplace_env._lib.threads import cached_property
from memplace_env.leaderboard import references
from memplace_env.leaderboard.cells import Knowledge, Latencies
from memplace_env.leaderboard.standings import StandingsRow, standings
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.suite import Suite


@dataclass(frozen=True)
class SuiteBoard:
    """All submissions to one suite.

    Attributes:
        suite: the suite.
        submissions: all to it, in the order of tracks and names.
    """

    suite: Suite
    submissions: tuple[Submission, ...]

    @cached_property
    def tracks(self) -> list[str]:
        """Names of the tracks that have submissions, in the suite's order."""
        played = {submission.meta.track for submission in self.submissions}
        return [name for name in self.suite.tracks if name in played]

    @cached_property
    def baselines(self) -> Latencies:
        """Latencies of the baselines."""
        return {
            name: references.baselines(
                self.suite, self.suite.track(name), [played for played in self.submissions if played.meta.track == name]
            )
            for name in self.tracks
        }

    @cached_property
    def known(self) -> Knowledge:
        """Best known plans and bounds."""
        return {name: references.known(self.suite, self.suite.track(name), self.submissions) for name in self.tracks}

    @cached_property
    def rows(self) -> list[StandingsRow]:
        """The standings."""
        return standings(self.suite, self.submissions, baselines=self.baselines, known=self.known)
