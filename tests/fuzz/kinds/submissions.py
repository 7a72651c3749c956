"""Files of a submission, changed: an accepted one has the figures of the honest one, or those of its own plans."""

from __future__ import annotations

import json
import lzma
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomlkit

from memplace_leaderboard.folder import META, RUNS
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.verifying import verify
from tests.fuzz import Wrong
from tests.fuzz.documents import damaged, mutated, strange

NAME = "submissions"
CASES = 4_000


class Honest(NamedTuple):
    """A submission: its folder, its description, the lines of its runs, and what was verified."""

    folder: Path
    meta: dict[str, Any]
    lines: list[str]
    verified: Submission


def prepare(folder: Path) -> Honest:
    """Return the smallest suite, searched with ten plans."""
    from memplace_leaderboard.running import describe, run
    from memplace_leaderboard.suite import load_suite

    suite = load_suite("quick-v1")
    out = folder / "honest"
    run(describe(suite, suite.track("search"), "density-greedy", {}, ["10"]), out)
    lines = lzma.decompress((out / RUNS).read_bytes()).decode().splitlines()
    return Honest(out, tomllib.loads((out / META).read_text()), lines, verify(out))


def case(honest: Honest, rng: np.random.Generator, folder: Path) -> bool:
    """Verify a submission with one file replaced."""
    copy = folder / "submission"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(honest.folder, copy)
    if rng.random() < 0.3:
        _change_meta(copy / META, honest, rng)
    else:
        _change_runs(copy / RUNS, honest.lines, rng)
    verified = verify(copy)
    _compare(verified, honest.verified)
    return True


def _change_meta(path: Path, honest: Honest, rng: np.random.Generator) -> None:
    if rng.random() < 0.4:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    try:
        path.write_text(tomlkit.dumps(mutated(honest.meta, rng)))
    except Exception:  # not everything can be written as TOML
        path.write_bytes(b"name = " + repr(strange(rng)).encode(errors="replace"))


def _change_runs(path: Path, lines: list[str], rng: np.random.Generator) -> None:
    kind = rng.random()
    if kind < 0.1:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    if kind < 0.15:
        path.rename(path.with_name(str(rng.choice(["../x", "x", f"x{RUNS}", ".hidden"])).replace("/", "_")))
        return
    at, lines = int(rng.integers(len(lines))), list(lines)
    if kind < 0.3:
        content = damaged("\n".join(lines).encode(), rng)
    else:
        run = json.loads(lines[at])
        part = run if rng.random() < 0.4 else run["plan"]
        changed = mutated(part, rng)
        lines[at] = json.dumps(changed if part is run else run | {"plan": changed})
        if rng.random() < 0.1:
            lines.append(lines[at])
        content = "\n".join(lines).encode()
    path.write_bytes(lzma.compress(content, preset=0))


def _compare(verified: Submission, honest: Submission) -> None:
    """Compare verified figures; declared ones and times cannot be checked."""
    if replace(verified.meta, **_declared(honest)) != honest.meta:
        raise Wrong(f"another description is accepted: {verified.meta}")
    if len(verified.entries) != len(honest.entries):
        raise Wrong(f"{len(verified.entries)} runs are accepted")
    for mine, theirs in zip(verified.entries, honest.entries, strict=True):
        if mine.key != theirs.key:
            raise Wrong(f"the run of {mine.key} is accepted for that of {theirs.key}")
        if mine.latency_ps != theirs.latency_ps:
            raise Wrong(f"{mine.latency_ps} ps is accepted, where the plan takes {theirs.latency_ps}")


def _declared(honest: Submission) -> dict[str, Any]:
    names = ("name", "agent", "options", "authors", "link", "licence", "hardware", "training")
    return {name: getattr(honest.meta, name) for name in names}
