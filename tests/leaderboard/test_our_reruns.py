"""Our own rows run again in a small suite: what CI repeats in each build of the record that the tables show."""

import pytest

from benchmarks.experiments.leaderboard import RERUNS, SUBMISSIONS
from memplace_leaderboard.rerun_record import read_records
from memplace_leaderboard.rerunning import run_again
from memplace_leaderboard.verifying import read

SEARCHES = (("quick-local-search", "100"), ("quick-game-local-search", "100"))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "budget"), SEARCHES)
def test_searches_come_out(name, budget):
    folder = SUBMISSIONS / name
    record = run_again(folder, read(folder), (budget,))
    assert record.runs == 20


def test_the_record_is_of_submissions_that_are_here():
    """A record about files that have changed since is of no use to anybody."""
    hashes = {read(folder).sha256 for folder in SUBMISSIONS.iterdir() if folder.name.startswith("quick-")}
    for record in read_records(RERUNS).values():
        if record.suite == "quick-v1":
            assert record.sha256 in hashes, f"run {record.name} again: memplace leaderboard rerun"
