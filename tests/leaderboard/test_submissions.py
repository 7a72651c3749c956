"""Our own submissions, all of them, replay."""

import pytest

from benchmarks.experiments.leaderboard import SUBMISSIONS, folders
from benchmarks.harness import ROOT
from memplace_env.envs.registration import Formulation
from memplace_leaderboard.folder import META
from memplace_leaderboard.free_rules import is_rule
from memplace_leaderboard.jobs import job_of, play
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import load_suite, suite_names
from memplace_leaderboard.verifying import read, verify_all

MANDATORY = {Formulation.ONE_SHOT: ("local-search", "exact"), Formulation.GAME: ("game-local-search", "exact")}
"""Rows that every track has beside the rules, which the board plays itself."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(name, marks=[pytest.mark.thorough] * name.endswith(("shot-v1", "game-v1")))
        for name in suite_names()
    ],
)
def test_all_of_them_replay(suite):
    """The large suites with `--thorough`."""
    results = verify_all(folders(suite))
    assert len(results) >= 3
    assert [each for each in results if not isinstance(each, Submission)] == []


@pytest.mark.slow
@pytest.mark.parametrize("suite", ["one-shot-v1", "game-v1"])
def test_the_large_ones_are_complete(suite):
    assert [read(folder).meta.suite for folder in folders(suite)] == [suite] * len(folders(suite))


def test_a_row_of_ours_is_found_again():
    """A search whose plans changed needs a new row."""
    folder = SUBMISSIONS / "quick-v2-local-search"
    submission = read(folder)
    track = load_suite("quick-v2").track("search")
    for entry in submission.entries[:: len(submission.entries) // 2]:
        again = play(job_of(submission.meta, track, entry.key))
        assert (again.latency_ps, again.plan) == (entry.latency_ps, entry.plan)


def test_none_is_left_out():
    """No row is of a rule, which the board plays itself."""
    assert not any(is_rule(read_meta(folder / META)) for suite in suite_names() for folder in folders(suite))
    assert sorted(each for suite in suite_names() for each in folders(suite)) == sorted(
        path for path in SUBMISSIONS.iterdir() if path.is_dir()
    )


@pytest.mark.parametrize(
    ("suite", "track", "formulation"),
    [
        *(("quick-v1", "search", kind) for kind in MANDATORY),
        *(("one-shot-v1", track, Formulation.ONE_SHOT) for track in ("search", "zero-shot")),
        *(("game-v1", track, Formulation.GAME) for track in ("search", "zero-shot")),
        ("sliced-v1", "search", Formulation.ONE_SHOT),
    ],
)
def test_every_track_has_its_mandatory_rows(suite, track, formulation):
    metas = [read_meta(folder / META) for folder in folders(suite)]
    names = {meta.name for meta in metas if meta.track == track and formulation in meta.formulations}
    assert set(MANDATORY[formulation]) <= names


def test_the_page_is_short():
    """Sections for those who submit are left out: they had a page of their own."""
    parts = (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8").split("\n## ")
    ours = [part for part in parts if not part.startswith(("Submit a row", "What is known", "What is refused"))]
    assert len(parts) - len(ours) == 3
    assert sum(len(part.splitlines()) for part in ours) <= 150
