"""A small submission, and ways to tamper with it."""

import lzma
from dataclasses import replace

import pytest

from memplace_env._lib.errors import LeaderboardError
from memplace_leaderboard.folder import META, RUNS, read_runs, write_runs
from memplace_leaderboard.meta_file import read_meta, write_meta
from memplace_leaderboard.suite import load_suite
from memplace_leaderboard.verifying import verify

SUITE = load_suite("quick-v1")


def change(folder, tamper):
    """Write the runs anew, as `tamper` makes them of what they are."""
    write_runs(folder / RUNS, tamper(list(read_runs(folder / RUNS))))


def change_first(folder, **fields):
    change(folder, lambda entries: [replace(entries[0], **fields), *entries[1:]])


def write_lines(folder, *lines):
    (folder / RUNS).write_bytes(lzma.compress(b"".join(lines)))


def change_meta(folder, **fields):
    write_meta(folder / META, replace(read_meta(folder / META), **fields))


def refused(folder, *parts):
    with pytest.raises(LeaderboardError) as error:
        verify(folder)
    message = str(error.value)
    assert all(part in message for part in parts), message
    assert "\n" not in message
    return message
