"""Whether a submission is what it says: every plan is validated and timed again, every figure computed anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memplace_env import __version__
from memplace_env.errors import LeaderboardError, MemPlaceError
from memplace_env.leaderboard.checks import Told, check_complete, check_meta, check_spending
from memplace_env.leaderboard.entry import Entry
from memplace_env.leaderboard.folder import files_in, read_all
from memplace_env.leaderboard.jobs import Job, play, true_latency_ps
from memplace_env.leaderboard.meta_file import read_meta
from memplace_env.leaderboard.pinned import require_pinned
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.suite import Budget


def verify(folder: Path, told: Told = lambda done, of: None) -> Submission:
    """Read a submission and replay all of it.

    Raises:
        LeaderboardError: with the first thing that is wrong, in one sentence that begins with where it is.
    """
    return verified([folder], told)[0]


def verified(folders: Sequence[Path], told: Told = lambda done, of: None) -> list[Submission]:
    """The submissions in these folders, all of them replayed; see `verify`."""
    submissions = []
    for found in verify_all(folders, told):
        if isinstance(found, LeaderboardError):
            raise found
        submissions.append(found)
    return submissions


def verify_all(folders: Sequence[Path], told: Told = lambda done, of: None) -> list[Submission | LeaderboardError]:
    """Of each folder the submission, replayed, or what is wrong with it; each instance is made once for all of them."""
    results: list[Submission | LeaderboardError] = [_read(folder) for folder in folders]
    played: dict[str, list[tuple[int, Submission]]] = {}
    for place, each in enumerate(results):
        if isinstance(each, Submission):
            suite, track = check_meta(each.meta, __version__)
            for env_id in suite.played(track, each.meta.formulations):
                played.setdefault(env_id, []).append((place, each))
    for done, (env_id, some) in enumerate(played.items()):
        told(done, len(played))
        for place, submission in some:
            try:
                _replay(folders[place], env_id, submission)
            except LeaderboardError as error:
                if not isinstance(results[place], LeaderboardError):
                    results[place] = error
    told(len(played), len(played))
    return results


def _read(folder: Path) -> Submission | LeaderboardError:
    try:
        return read(folder)
    except LeaderboardError as error:
        return error
    except OSError as error:
        return LeaderboardError(f"{error.filename or folder} cannot be read: {error.strerror or error}.")


def read(folder: Path) -> Submission:
    """Read a submission, complete and within its budgets, without replaying it; see `verify`."""
    meta_path, packed = files_in(folder)
    meta = read_meta(meta_path)
    try:
        suite, track = check_meta(meta, __version__)
    except LeaderboardError as error:
        raise LeaderboardError(f"{meta_path}: {error}") from None
    for env_id in packed:
        if env_id not in suite.instances:
            raise LeaderboardError(f"{packed[env_id]} belongs to no instance of {suite.name}.")
    entries = read_all(packed)
    try:
        check_complete(meta, suite, track, entries)
    except LeaderboardError as error:
        raise LeaderboardError(f"{folder}: {error}") from None
    order = {env_id: place for place, env_id in enumerate(suite.instances)}
    ordered = [entry for env_id in sorted(entries, key=order.__getitem__) for entry in entries[env_id]]
    return Submission(meta, tuple(ordered))


def rerun(folder: Path, submission: Submission, entry: Entry) -> None:
    """Let the agent search again and compare: plan, evaluations and the curve but for its seconds.

    This runs the agent's code. What is said to be deterministic is run with another seed.

    Raises:
        LeaderboardError: if it finds something else, or the agent is not installed here.
    """
    meta = submission.meta
    _, track = check_meta(meta, __version__)
    seed = entry.seed + 1 if meta.deterministic else entry.seed
    job = Job(meta.agent, meta.options, track, entry.env_id, Budget(entry.budget), seed, meta.nominal)
    again = play(job)
    same = (again.latency_ps, again.evaluations) == (entry.latency_ps, entry.evaluations)
    steps = [[(point.evaluations, point.latency_ps) for point in each.curve] for each in (again, entry)]
    if not same or steps[0] != steps[1]:
        raise LeaderboardError(
            f"{folder}: {job}: run again, {meta.agent} takes {again.evaluations} plans to {again.latency_ps} ps; the "
            f"entry says {entry.evaluations} and {entry.latency_ps}, or has another curve."
        )


def _replay(folder: Path, env_id: str, submission: Submission) -> None:
    """All runs of one environment."""
    suite, track = check_meta(submission.meta, __version__)
    try:
        require_pinned(suite, suite.instances[env_id])
    except LeaderboardError as error:
        raise LeaderboardError(f"{folder}: {error}") from None
    for entry in submission.entries:
        if entry.env_id != env_id:
            continue
        try:
            check_spending(entry, track.noise)
            latency_ps = true_latency_ps(track, env_id, entry.plan)
            if latency_ps != entry.latency_ps:
                raise LeaderboardError(f"it says {entry.latency_ps} ps, and its plan replays in {latency_ps} ps.")
        except MemPlaceError as error:
            where = f"{folder}: {env_id}, budget {entry.budget}, seed {entry.seed}"
            raise LeaderboardError(f"{where}: {error}") from None
