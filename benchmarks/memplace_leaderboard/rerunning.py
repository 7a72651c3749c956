"""A submission run again: the same plans, or shares of the gain that a test does not tell from the submission's."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.version import __version__
from memplace_env.envs.registration import formulation_of_id
from memplace_leaderboard import references
from memplace_leaderboard.agent_source import pinned_code
from memplace_leaderboard.cells import Cell, cells
from memplace_leaderboard.checks import OnProgress, expected
from memplace_leaderboard.drawn_machines import draw_seeds
from memplace_leaderboard.entry import Entry
from memplace_leaderboard.executors import run_all
from memplace_leaderboard.free_rules import rule_seconds
from memplace_leaderboard.jobs import job_of, play
from memplace_leaderboard.rerun_record import RerunRecord, Times
from memplace_leaderboard.running import hardware
from memplace_leaderboard.scores import Floats
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import REFERENCE, Budget, Suite, Track, load_suite

PERMUTATIONS: Final = 10_000
"""Permutations of the two-sample test."""
LEVEL: Final = 0.01
"""Probability below which worse shares than the submission's refuse it. Our choice."""
SLACK: Final = 0.01
"""Mean share of the gain by which a deterministic row with a budget of seconds may fall short. Our choice."""
FACTOR: Final = 4.0
"""Factor by which the mean processor time of a rerun may exceed what the submission says. Our choice."""
FASTER: Final = 4.0
"""Most by which one machine is believed to be faster than another: what says so is declared. Our choice."""
SLACK_S: Final = 0.05
"""Difference of such means that is never too much: a rule of 6 ms takes 26 on cores that others use. Our choice."""


def run_again(
    folder: Path,
    submission: Submission,
    budgets: Sequence[str] = (),
    *,
    workers: int = 1,
    on_progress: OnProgress = lambda done, of: None,
) -> RerunRecord:
    """Run a submission's agent again, and return the record of it.

    What is deterministic runs once with another seed and has to find the same plans. Anything else runs with as many
    new seeds as the submission has, on new machines where these are drawn, and its shares of the gain are tested
    against the submission's. Processor times have to be about the submission's, see `check_times`. This runs the
    agent's code, in processes of its own.

    Args:
        folder: the submission's folder.
        submission: as it was read from there.
        budgets: those that are run again; all if empty.
        workers: processes, each with a core of its own.
        on_progress: called with the number of finished runs and of all.

    Raises:
        LeaderboardError: if the submission has no such budget, its code is another one here, or it does not come out.
    """
    meta, suite = submission.meta, load_suite(submission.meta.suite)
    track = suite.track(meta.track)
    chosen = tuple(budget for budget in meta.budgets if budget in (budgets or meta.budgets))
    if not chosen or set(budgets) - set(meta.budgets):
        raise LeaderboardError(f"{folder} has the budgets {', '.join(meta.budgets)}, not {', '.join(budgets)}.")
    if track.machine is not None:
        meta = replace(meta, machine_seeds=draw_seeds(len(meta.seeds)))
    wanted = list(expected(replace(meta, budgets=chosen), suite, track))
    moved = 1 if meta.deterministic else suite.seeds
    jobs = {}
    for key in wanted:
        job = replace(job_of(meta, track, key), deterministic=False)
        jobs[key] = job if key[1] == REFERENCE else replace(job, seed=job.seed + moved)
    found: dict[tuple[str, str, int], Entry] = {}
    keys = {job: key for key, job in jobs.items()}
    with pinned_code(folder, meta):
        for job, entry in run_all(list(jobs.values()), play, workers=workers, name=str):
            found[keys[job]] = replace(entry, seed=keys[job][2])
            on_progress(len(found), len(jobs))
    again = replace(submission, meta=replace(meta, budgets=chosen), entries=tuple(found[key] for key in wanted))
    kept = replace(
        submission,
        meta=replace(submission.meta, budgets=chosen),
        entries=tuple(entry for entry in submission.entries if entry.budget in (*chosen, REFERENCE)),
    )
    method, p, change = _compared(folder, suite, track, kept, again)
    machine, times = hardware(), mean_times(again)
    check_times(folder, mean_times(kept), times, submission.meta.hardware.get("rule_s"), rule_seconds())
    return RerunRecord(
        sha256=submission.sha256,
        name=meta.name,
        suite=meta.suite,
        track=meta.track,
        budgets=chosen,
        runs=sum(entry.budget != REFERENCE for entry in again.entries),
        method=method,
        p_value=p,
        change=round(change, 6),
        date=datetime.date.today().isoformat(),
        memplace=__version__,
        machine=f"{machine['cpu']}, {machine['cores']} core{'s' * (machine['cores'] > 1)}",
        times=times,
        rule_s=rule_seconds(),
    )


def mean_times(submission: Submission) -> Times:
    """Return the times of a submission; wall time twice where no judge measured it."""
    runs: dict[str, list[tuple[float, float]]] = {}
    for entry in submission.entries:
        if entry.budget != REFERENCE:
            used = entry.seconds if entry.processor_seconds is None else entry.processor_seconds
            key = f"{formulation_of_id(entry.env_id)} {entry.budget}"
            runs.setdefault(key, []).append((entry.seconds, used))
    means = {key: np.mean(pairs, axis=0).round(6).tolist() for key, pairs in runs.items()}
    return {key: (wall, used) for key, (wall, used) in means.items()}


def check_times(folder: Path, said: Times, here: Times, their_rule: object, our_rule: float) -> None:
    """Raise a LeaderboardError if the rerun takes more processor time than the submission says.

    The rules are `free_rules.rule_seconds` on both machines; theirs may be missing, and is declared. A run may end by
    its work or by the clock, so that any speed between equal and that of the rule is believed. Who says more than the
    rerun takes gains nothing by it, as the row is placed by the rerun's own time.
    """
    theirs = their_rule if isinstance(their_rule, float) and their_rule > 0 else our_rule
    slower = min(max(our_rule / theirs, 1), FASTER)
    for key, (_, ours_s) in here.items():
        said_s = said[key][1]
        most_s = said_s * slower * FACTOR
        if ours_s > most_s + SLACK_S:
            raise LeaderboardError(
                f"{folder}: run again, {key} takes {ours_s:.3g} processor seconds a run; it says {said_s:.3g}, which "
                f"may be {most_s:.3g} here."
            )


def _compared(
    folder: Path, suite: Suite, track: Track, kept: Submission, again: Submission
) -> tuple[str, float | None, float]:
    """Return the method, the p-value and the change of the mean share.

    Raises:
        LeaderboardError: if the rerun does not bear the submission out.
    """
    meta = kept.meta
    if meta.deterministic and track.machine is None:
        timed = all(Budget(budget).seconds is not None for budget in meta.budgets)
        unlike = [new for old, new in zip(kept.entries, again.entries, strict=True) if not _equal(old, new, timed)]
        if not unlike:
            return "equal", None, 0.0
        first = unlike[0]
        if Budget(first.budget).seconds is None:
            raise LeaderboardError(
                f"{folder}: run again with another seed, {first.env_id} with budget {first.budget} has "
                f"{first.latency_ps} ps after {first.evaluations} plans, which is not what the submission has."
            )
    old, new = (_shares(suite, track, each) for each in (kept, again))
    p, change = p_value(old, new), float(np.mean([a.mean() for a in new]) - np.mean([a.mean() for a in old]))
    if (p < LEVEL and change < 0) or (meta.deterministic and change < -SLACK):
        raise LeaderboardError(
            f"{folder}: run again, its mean share of the gain is {change:+.1%}; chance alone does that with a "
            f"probability of {p:.2g}."
        )
    return "two-sample", p, change


def _equal(old: Entry, new: Entry, timed: bool) -> bool:
    return (old.plan, old.latency_ps) == (new.plan, new.latency_ps) and (timed or old.evaluations == new.evaluations)


def _shares(suite: Suite, track: Track, submission: Submission) -> list[Floats]:
    """Return the shares of each budget and instance that counts, float[runs] each."""
    baselines = {track.name: references.baselines(suite, track, [submission])}
    known = {track.name: references.known(suite, track, [submission])}
    found: list[Cell] = cells(suite, [submission], baselines=baselines, known=known)
    return [np.array(cell.shares) for cell in found if cell.counts or track.machine is not None]


def p_value(old: Sequence[Floats], new: Sequence[Floats], permutations: int = PERMUTATIONS) -> float:
    """Return the probability of means as far apart as these if old and new runs are alike.

    Two-sided permutation test of the difference of the mean shares. Within each stratum, a budget and instance, the
    runs of both are dealt anew; the strata weigh the same. The draws have a fixed seed.

    Args:
        old, new: float[runs] for each stratum, in the same order.
        permutations: number of random deals.
    """
    rng = np.random.default_rng(0)
    observed = np.mean([b.mean() - a.mean() for a, b in zip(old, new, strict=True)])
    dealt = np.zeros(permutations)
    for a, b in zip(old, new, strict=True):
        pool = np.concatenate([a, b])
        mixed = rng.permuted(np.repeat(pool[None], permutations, axis=0), axis=1)
        dealt += mixed[:, len(a) :].mean(axis=1) - mixed[:, : len(a)].mean(axis=1)
    as_far = np.abs(dealt / len(old)) >= abs(observed) - 1e-12
    return float((as_far.sum() + 1) / (permutations + 1))
