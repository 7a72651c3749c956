"""Runs that were killed: what they leave is no submission, and goes on where it stopped."""

import os
from dataclasses import replace

import pytest

from memplace_env._lib.errors import LeaderboardError, MemPlaceError
from memplace_env._lib.files import alone
from memplace_leaderboard import folder as files
from memplace_leaderboard import running
from memplace_leaderboard.folder import META, RUNS, UNFINISHED, append_run, read_runs
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.verifying import verify
from tests.leaderboard.tampering import refused


@pytest.fixture
def unfinished(folder):
    """A copy that was killed while it appended its last but three runs."""
    entries = list(read_runs(folder / RUNS))
    for entry in reversed(entries[3:]):
        append_run(folder / UNFINISHED, entry)
    os.truncate(folder / UNFINISHED, (folder / UNFINISHED).stat().st_size - 7)
    (folder / RUNS).unlink()
    return folder


def test_an_unfinished_run_says_so_and_goes_on(unfinished, honest):
    refused(unfinished, UNFINISHED, "unfinished")
    steps = []
    running.run(read_meta(unfinished / META), unfinished, on_progress=lambda done, of: steps.append((done, of)))
    assert steps == [(done, 20) for done in range(16, 21)]
    again, original = verify(unfinished), verify(honest)
    assert [entry.plan for entry in again.entries] == [entry.plan for entry in original.entries]
    assert again.entries[4:] == original.entries[4:]
    assert sorted(path.name for path in unfinished.iterdir()) == [RUNS, META]


def test_a_run_killed_while_it_goes_on_keeps_what_it_has(unfinished, monkeypatch):
    """Nothing is written after a line without an end."""
    played = running.play

    def mortal(job):
        if job.seed == 1:
            raise KeyboardInterrupt
        return played(job)

    monkeypatch.setattr(running, "play", mortal)
    with pytest.raises(KeyboardInterrupt):
        running.run(read_meta(unfinished / META), unfinished)
    assert len((unfinished / UNFINISHED).read_bytes().splitlines()) == 17
    assert len(files.resume_runs(unfinished / UNFINISHED)) == 17


def test_a_run_killed_at_its_end(folder):
    entries = list(read_runs(folder / RUNS))
    append_run(folder / UNFINISHED, entries[0])
    refused(folder, UNFINISHED)
    before = (folder / RUNS).read_bytes()
    running.run(read_meta(folder / META), folder)
    assert (folder / RUNS).read_bytes() == before
    verify(folder)


def test_a_damaged_unfinished_run(unfinished):
    lines = (unfinished / UNFINISHED).read_bytes().splitlines(keepends=True)
    (unfinished / UNFINISHED).write_bytes(b"".join([lines[0], b"null\n", *lines[2:]]))
    with pytest.raises(LeaderboardError, match=f"{UNFINISHED}, line 2: a run has exactly the fields"):
        running.run(read_meta(unfinished / META), unfinished)


def test_another_submission_is_not_written_over(folder):
    meta = replace(read_meta(folder / META), name="other")
    with pytest.raises(LeaderboardError, match="holds another submission"):
        running.run(meta, folder)


def test_what_a_killed_run_left_goes(folder):
    for left in (folder / f".{META}.abc", folder / f".{RUNS}.new"):
        left.write_text("half")
    refused(folder, "does not belong")
    running.run(read_meta(folder / META), folder)
    verify(folder)


def test_two_runs_do_not_share_a_folder(folder):
    with alone(folder), pytest.raises(MemPlaceError, match="Another run"):
        running.run(read_meta(folder / META), folder)
