"""Making a submission: all runs of an agent on a suite, resumable, each written as soon as it is there."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from agents.registry import agent_spec
from memplace_env import __version__
from memplace_env.errors import LeaderboardError
from memplace_env.files import alone, write_atomically
from memplace_env.leaderboard.checks import Told, check_meta, expected
from memplace_env.leaderboard.entry import Entry
from memplace_env.leaderboard.executors import run_all
from memplace_env.leaderboard.folder import (
    LINE_BYTES,
    META,
    PARTS,
    PLANS,
    SUFFIX,
    of_line,
    read_bytes,
    to_line,
    write_entries,
)
from memplace_env.leaderboard.jobs import Job, named_failures, play
from memplace_env.leaderboard.meta_file import read_meta, write_meta
from memplace_env.leaderboard.splits import FORMULATIONS
from memplace_env.leaderboard.submission import Meta
from memplace_env.leaderboard.suite import OWN, Budget, Suite, Track
from memplace_env.testing import check_agent
from memplace_env.threads import available_cores


def describe(
    suite: Suite, track: Track, agent: str, options: Mapping[str, Any], budgets: Sequence[str] = (), **said: Any
) -> Meta:
    """What a submission of an agent says of itself.

    Args:
        suite, track: that are played.
        agent: a registered name or "module:Class".
        options: it is made with.
        budgets: none for those of plans that the track has, or "own" for an agent that takes no budget.
        said: further fields of `Meta`.

    Raises:
        AgentError: if there is no such agent, or an option makes no sense.
        LeaderboardError: if the track has nothing that the agent plays, or no such budget.
    """
    spec = agent_spec(agent)
    made = spec.make(**options)
    formulations = tuple(each for each in FORMULATIONS if each in spec.formulations and suite.played(track, (each,)))
    measures = track.is_black_box and not said.get("nominal", False)
    own = bool(getattr(made, "deterministic", False)) and not measures
    deterministic = bool(said.pop("deterministic", False)) or own
    if not budgets:
        plans = [budget.text for budget in track.budgets if budget.plans]
        budgets = plans if getattr(made, "budgeted", True) else [OWN]
    meta = Meta(
        agent=agent,
        options=dict(options),
        suite=suite.name,
        suite_sha256=suite.sha256,
        track=track.name,
        formulations=formulations,
        budgets=tuple(Budget(budget).text for budget in budgets),
        seeds=(0,) if deterministic else tuple(range(suite.seeds)),
        deterministic=deterministic,
        memplace=__version__,
        hardware=hardware(),
        **{"name": made.name, **said},
    )
    check_meta(meta, __version__)
    return meta


def check_plays(meta: Meta) -> None:
    """Raise a MemPlaceError if the agent does not keep to its contract: before hours are spent."""
    made = agent_spec(meta.agent).make(**meta.options)
    if meta.options.get("policy") is not None:  # it is of the networks that its own environments ask for
        return
    with named_failures("On a small environment", meta.agent):
        check_agent(made)


def run(meta: Meta, out: Path, *, workers: int = 1, ray: str | None = None, told: Told = lambda done, of: None) -> None:
    """Make the submission in a folder, or go on with it.

    Args:
        meta: what it says of itself.
        out: the folder.
        workers: processes, each with a core of its own.
        ray: address of a Ray cluster that runs them instead.
        told: of progress.

    Raises:
        LeaderboardError: if the folder holds another submission, or a run breaks the rules.
        MemPlaceError: if another run writes into it.
    """
    suite, track = check_meta(meta, __version__)
    with alone(out):
        _run(meta, suite, track, out, workers, ray, told)


def _run(meta: Meta, suite: Suite, track: Track, out: Path, workers: int, ray: str | None, told: Told) -> None:
    _claim(out, meta)
    wanted = list(expected(meta, suite, track))
    packed = {path.name.removesuffix(SUFFIX) for path in (out / PLANS).glob(f"*{SUFFIX}")}
    missing = [key for key in wanted if key[0] not in packed and not _part(out, *key).exists()]
    jobs = [
        Job(meta.agent, meta.options, track, env_id, Budget(budget), seed, meta.nominal)
        for env_id, budget, seed in missing
    ]
    done = len(wanted) - len(jobs)
    told(done, len(wanted))
    for env_id in {key[0] for key in wanted} - packed:
        _pack(out, [key for key in wanted if key[0] == env_id])
    with _one_core() if workers == 1 and ray is None else nullcontext():
        for job, entry in run_all(jobs, play, workers=workers, ray=ray, name=str):
            write_atomically(_part(out, *job.key), to_line(entry))
            _pack(out, [key for key in wanted if key[0] == job.env_id])
            done += 1
            told(done, len(wanted))
    shutil.rmtree(out / PARTS, ignore_errors=True)


def hardware() -> dict[str, Any]:
    """This machine, as far as it says."""
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
    """What this process does itself, it does on one core, as workers do: so that seconds compare."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    # Not always the first one: two runs side by side should not share it.
    os.sched_setaffinity(0, {sorted(cores)[os.getpid() % len(cores)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _claim(out: Path, meta: Meta) -> None:
    """Write submission.toml, or find the same there; what an earlier run was killed over goes."""
    path = out / META
    for temporary in (f".{META}.*", f"{PLANS}/.*{SUFFIX}.*", f"{PARTS}/*/.*.json.*"):
        for left in out.glob(temporary):
            left.unlink()
    if not path.exists() and (out / PLANS).is_dir() and not any((out / PLANS).iterdir()):
        (out / PLANS).rmdir()
    if path.exists():
        there = read_meta(path)
        if replace(there, hardware=meta.hardware) != meta:
            raise LeaderboardError(
                f"{out} holds another submission, {there.name!r} of {there.suite}; pass another --out, or the same "
                "arguments to go on with it."
            )
        return
    if any(out.iterdir()):
        raise LeaderboardError(f"{out} is there and holds no submission; pass another --out.")
    (out / PLANS).mkdir(parents=True, exist_ok=True)
    write_meta(path, meta)


def _part(out: Path, env_id: str, budget: str, seed: int) -> Path:
    return out / PARTS / env_id / f"{budget}-{seed}.json"


def _pack(out: Path, keys: Sequence[tuple[str, str, int]]) -> None:
    """Make one file of an environment's runs once all of them are there."""
    parts = [_part(out, *key) for key in keys]
    if all(part.exists() for part in parts):
        entries: list[Entry] = [of_line(read_bytes(part, LINE_BYTES).decode()) for part in parts]
        write_entries(out / PLANS / f"{keys[0][0]}{SUFFIX}", entries)
        shutil.rmtree(parts[0].parent)
