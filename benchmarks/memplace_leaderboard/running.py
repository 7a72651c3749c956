"""Run an agent on a suite and write the submission; each run is stored as soon as it ends, so that one can go on."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.files import alone, write_atomically
from memplace_env._lib.threads import available_cores
from memplace_env._lib.version import __version__
from memplace_env.envs.splits import FORMULATIONS
from memplace_leaderboard.agent_source import FILE, file_of, own_code, source_of
from memplace_leaderboard.checks import OnProgress, check_meta, expected, seeds_of
from memplace_leaderboard.drawn_machines import draw_seeds
from memplace_leaderboard.entry import Entry, RunKey
from memplace_leaderboard.executors import run_all
from memplace_leaderboard.folder import AGENT, META, RUNS, UNFINISHED, append_run, resume_runs, write_runs
from memplace_leaderboard.free_rules import rule_seconds
from memplace_leaderboard.jobs import job_of, judge, play
from memplace_leaderboard.meta_file import check_form, read_meta, write_meta
from memplace_leaderboard.submission import Meta, Submission
from memplace_leaderboard.suite import OWN, REFERENCE, Budget, Suite, Track


def describe(
    suite: Suite,
    track: Track,
    agent: str,
    options: Mapping[str, Any],
    budgets: Sequence[str] = (),
    *,
    machines: Submission | None = None,
    **fields: Any,
) -> Meta:
    """Return the description of an agent's submission to a track; the seeds of machines are drawn here.

    Args:
        suite, track: the suite and one of its tracks.
        agent: a registered name or "module:Class".
        options: the agent's arguments.
        budgets: if empty, all of the track's budgets in plans, or "own" for an agent that takes no budget.
        machines: another submission, on whose machines the agent runs; None draws new ones if the track draws any.
        fields: further fields of `Meta`.

    Raises:
        MemPlaceError: if there is no such agent, or it takes no such option.
        LeaderboardError: if the track has no instance of the agent's formulations, or no such budget; if the other
            submission is on other kinds of machines; or if a text has another form than `verify` accepts.
    """
    about = judge().describe(agent, options)
    played = (kind for kind in FORMULATIONS if kind in about["formulations"])
    formulations = tuple(kind for kind in played if suite.played(track, (kind,)))
    if not formulations:
        raise LeaderboardError(
            f"{agent} plays {', '.join(about['formulations'])}, of which {suite.name}, {track.name} has nothing; "
            f"suites have {' and '.join(FORMULATIONS)}."
        )
    # A seed is that of the noise too, so that an agent that measures under noise is not deterministic.
    measures = track.is_black_box and not fields.get("nominal", False)
    deterministic = bool(fields.pop("deterministic", False)) or (about["deterministic"] and not measures)
    if not budgets:
        plans = [budget.text for budget in track.budgets if budget.plans]
        budgets = plans if about["budgeted"] else [OWN]
    meta = Meta(
        agent=agent,
        options=dict(options),
        suite=suite.name,
        suite_sha256=suite.sha256,
        track=track.name,
        formulations=formulations,
        budgets=tuple(Budget(budget).text for budget in budgets),
        seeds=seeds_of(suite, track, deterministic),
        deterministic=deterministic,
        memplace=__version__,
        hardware={**hardware(), "rule_s": rule_seconds()},
        machine_seeds=_machine_seeds(suite, track, machines),
        machines_of="" if machines is None else machines.meta.name,
        source=source_of(agent) if own_code(agent) else {},
        made=datetime.date.today().isoformat(),
        format=2,
        **{"name": about["name"], **fields},
    )
    check_form(meta)
    check_meta(meta)
    return meta


def _machine_seeds(suite: Suite, track: Track, machines: Submission | None) -> tuple[int, ...] | None:
    """Return the seeds of another submission's machines, or new ones if the track draws any."""
    if machines is None:
        return None if track.machine is None else draw_seeds(suite.seeds)
    theirs = machines.meta
    if theirs.suite != suite.name or suite.track(theirs.track).machine != track.machine or track.machine is None:
        raise LeaderboardError(f"{theirs.name!r} is not on machines of {suite.name}, {track.name}; take one that is.")
    return theirs.machine_seeds


def check_contract(meta: Meta) -> None:
    """Raise a MemPlaceError if the agent breaks its contract on small environments: a check before hours are spent."""
    if meta.options.get("policy") is None:  # a trained policy may fit no other environments than its own
        judge().check(meta.agent, meta.options)


def run(
    meta: Meta,
    out: Path,
    *,
    machines: Submission | None = None,
    workers: int = 1,
    ray: str | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> None:
    """Make the submission in a folder, or go on with it.

    The seeds of machines that are drawn, and what was found on them, are written only when all is done, so that nothing
    in the folder speaks of a machine while an agent is still to be judged on it. Such a run does not go on: stopped, it
    begins anew, on other machines, unless it is on another submission's.

    Args:
        meta: its description.
        out: the folder.
        machines: a submission on the same machines, whose references are taken over.
        workers: processes, each with a core of its own.
        ray: address of a Ray cluster that runs them instead.
        on_progress: called with the number of finished runs and of all.

    Raises:
        LeaderboardError: if the folder holds another submission, or a run breaks the rules.
        MemPlaceError: if another process writes into it.
    """
    suite, track = check_meta(meta)
    wanted = list(expected(meta, suite, track))
    with alone(out):
        meta = _claimed(out, meta, hidden=track.machine is not None and machines is None)
        if meta.source.get("kind") == FILE:
            write_atomically(out / AGENT, file_of(meta.agent))
        if (out / RUNS).exists():
            on_progress(len(wanted), len(wanted))
        elif track.machine is not None and machines is None:
            entries = _play_missing(meta, track, wanted, None, workers, ray, on_progress)
            write_meta(out / META, meta)
            write_runs(out / RUNS, (entries[key] for key in wanted))
        else:
            if machines is not None:
                _take_references(machines, meta, wanted, out / UNFINISHED)
            entries = _play_missing(meta, track, wanted, out / UNFINISHED, workers, ray, on_progress)
            write_runs(out / RUNS, (entries[key] for key in wanted))
        (out / UNFINISHED).unlink(missing_ok=True)


def _take_references(machines: Submission, meta: Meta, wanted: Sequence[RunKey], path: Path) -> None:
    """Append the references of a submission on the same machines that the file lacks."""
    if machines.meta.machine_seeds != meta.machine_seeds:
        raise LeaderboardError(f"{path.parent} is on other machines than {machines.meta.name!r}; pass another --out.")
    missing = set(wanted) - {entry.key for entry in resume_runs(path)}
    for entry in machines.entries:
        if entry.budget == REFERENCE and entry.key in missing:
            append_run(path, entry)


def _play_missing(
    meta: Meta,
    track: Track,
    wanted: Sequence[RunKey],
    path: Path | None,
    workers: int,
    ray: str | None,
    on_progress: OnProgress,
) -> dict[RunKey, Entry]:
    """Play the runs that a file lacks, append each as soon as it is finished, and return all by their keys.

    Without a path nothing is written.
    """
    entries = {} if path is None else {entry.key: entry for entry in resume_runs(path)}
    jobs = [job_of(meta, track, key) for key in wanted if key not in entries]
    done = len(wanted) - len(jobs)
    on_progress(done, len(wanted))
    with _one_core() if workers == 1 and ray is None else nullcontext():
        for job, entry in run_all(jobs, play, workers=workers, ray=ray, name=str):
            if path is not None:
                append_run(path, entry)
            entries[job.key] = entry
            done += 1
            on_progress(done, len(wanted))
    return entries


def hardware() -> dict[str, Any]:
    """Return cpu, cores, platform and python of this machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": available_cores(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


@contextmanager
def _one_core() -> Iterator[None]:
    """Bind this process to one core, as workers are, so that seconds compare."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    # Chosen by process id: two runs side by side should not share the first core.
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _claimed(out: Path, meta: Meta, hidden: bool) -> Meta:
    """Write submission.toml, or require that it is the same; remove temporary files of a killed process.

    Args:
        out, meta: the folder and the description.
        hidden: whether to leave out the seeds of machines.

    Returns:
        The description, with the seeds of machines that the folder has.
    """
    path, finished = out / META, (out / RUNS).exists()
    for temporary in (f".{META}.*", f".{RUNS}.*"):
        for left in out.glob(temporary):
            left.unlink()
    if path.exists():
        present = read_meta(path)
        seeds = meta.machine_seeds if present.machine_seeds is None and not finished else present.machine_seeds
        if replace(present, hardware=meta.hardware, machine_seeds=meta.machine_seeds, made=meta.made) != meta:
            raise LeaderboardError(
                f"{out} holds another submission, {present.name!r} to {present.suite}; pass another --out, or the same "
                "arguments to go on with it."
            )
        return replace(meta, machine_seeds=seeds, made=present.made)
    if any(out.iterdir()):
        raise LeaderboardError(f"{out} exists and holds no submission; pass another --out.")
    write_meta(path, replace(meta, machine_seeds=None) if hidden else meta)
    return meta
