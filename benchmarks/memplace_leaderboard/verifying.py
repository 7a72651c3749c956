"""Verification of submissions: every plan is validated and timed again, every figure computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from memplace_env._lib.errors import LeaderboardError, MemPlaceError
from memplace_leaderboard.checks import OnProgress, check_meta, check_source, check_spending, key_check, ordered
from memplace_leaderboard.entry import Entry
from memplace_leaderboard.folder import folder_sha256, read_runs, submission_files
from memplace_leaderboard.jobs import true_latency_ps
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.pinned import require_pinned
from memplace_leaderboard.submission import Meta, Submission
from memplace_leaderboard.suite import Suite, Track, load_suite


def verify(folder: Path, on_progress: OnProgress = lambda done, of: None) -> Submission:
    """Read a submission and replay all of it.

    Raises:
        LeaderboardError: with the first fault, in one sentence that begins with its location.
    """
    return verified([folder], on_progress)[0]


def verified(folders: Sequence[Path], on_progress: OnProgress = lambda done, of: None) -> list[Submission]:
    """Return the submissions in these folders, all of them replayed; see `verify`."""
    submissions = []
    for result in verify_all(folders, on_progress):
        if isinstance(result, LeaderboardError):
            raise result
        submissions.append(result)
    return submissions


def verify_all(
    folders: Sequence[Path], on_progress: OnProgress = lambda done, of: None
) -> list[Submission | LeaderboardError]:
    """Return for each folder the replayed submission or its first fault; all share the task of an instance."""
    results: list[Submission | LeaderboardError] = [_read(folder) for folder in folders]
    # By environment id: number of the folder, and that environment's runs.
    played: dict[str, list[tuple[int, list[Entry]]]] = {}
    for index, result in enumerate(results):
        if isinstance(result, Submission):
            for env_id, group in groupby(result.entries, key=lambda entry: entry.env_id):
                played.setdefault(env_id, []).append((index, list(group)))
    for done, (env_id, runs) in enumerate(played.items()):
        on_progress(done, len(played))
        for index, entries in runs:
            result = results[index]
            if isinstance(result, Submission):
                try:
                    _replay(folders[index], result.meta, *_played_in(result), env_id, entries)
                except LeaderboardError as error:
                    results[index] = error
    on_progress(len(played), len(played))
    return results


def _read(folder: Path) -> Submission | LeaderboardError:
    try:
        return read(folder)
    except LeaderboardError as error:
        return error
    except OSError as error:
        return LeaderboardError(f"{error.filename or folder} cannot be read: {error.strerror or error}.")


def read(folder: Path) -> Submission:
    """Read a submission and check that it is complete, without replaying it; see `verify`."""
    meta_path, runs_path, *code = submission_files(folder)
    meta = read_meta(meta_path)
    try:
        suite, track = check_meta(meta)
        check_source(meta, bool(code))
    except LeaderboardError as error:
        raise LeaderboardError(f"{meta_path}: {error}") from None
    runs = list(read_runs(runs_path, key_check(meta, suite, track)))
    try:
        return Submission(meta, ordered(meta, suite, track, runs), folder_sha256(folder))
    except LeaderboardError as error:
        raise LeaderboardError(f"{folder}: {error}") from None


def _played_in(submission: Submission) -> tuple[Suite, Track]:
    """Suite and track of a submission that `check_meta` accepted."""
    suite = load_suite(submission.meta.suite)
    return suite, suite.track(submission.meta.track)


def _replay(folder: Path, meta: Meta, suite: Suite, track: Track, env_id: str, entries: Iterable[Entry]) -> None:
    """Replay a submission's runs of one environment."""
    try:
        require_pinned(suite, suite.instances[env_id])
    except LeaderboardError as error:
        raise LeaderboardError(f"{folder}: {error}") from None
    for entry in entries:
        try:
            check_spending(entry, track.noise)
            latency_ps = true_latency_ps(track, env_id, entry.plan, meta.machine_seed(entry.seed))
            if latency_ps != entry.latency_ps:
                raise LeaderboardError(f"it has {entry.latency_ps} ps, and its plan replays in {latency_ps} ps.")
        except MemPlaceError as error:
            where = f"{folder}: {env_id}, budget {entry.budget}, seed {entry.seed}"
            raise LeaderboardError(f"{where}: {error}") from None
