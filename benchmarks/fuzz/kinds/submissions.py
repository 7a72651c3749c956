"""Files of a submission, changed: what is accepted says what the honest one says, or what its plans replay in."""

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

from benchmarks.fuzz import Wrong
from benchmarks.fuzz.documents import damaged, mutated, strange
from memplace_env.leaderboard.folder import META, PLANS, SUFFIX
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.verifying import verify

NAME = "submissions"
CASES = 4_000


class Honest(NamedTuple):
    """A submission: its folder, its description, the lines of each file, and what it says."""

    folder: Path
    meta: dict[str, Any]
    lines: dict[str, list[str]]
    says: Submission


def prepare(folder: Path) -> Honest:
    """The smallest suite, searched with ten plans."""
    from memplace_env.leaderboard.running import describe, run
    from memplace_env.leaderboard.suite import load_suite

    suite = load_suite("quick-v1")
    out = folder / "honest"
    run(describe(suite, suite.track("search"), "density-greedy", {}, ["10"]), out)
    files = sorted((out / PLANS).iterdir())
    lines = {path.name: lzma.decompress(path.read_bytes()).decode().splitlines() for path in files}
    return Honest(out, tomllib.loads((out / META).read_text()), lines, verify(out))


def case(honest: Honest, rng: np.random.Generator, folder: Path) -> bool:
    """Verify a submission one file of which is another."""
    copy = folder / "submission"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(honest.folder, copy)
    if rng.random() < 0.3:
        _change_meta(copy / META, honest, rng)
    else:
        name = sorted(honest.lines)[rng.integers(len(honest.lines))]
        _change_plans(copy / PLANS / name, honest.lines[name], rng)
    says = verify(copy)
    _compare(says, honest.says)
    return True


def _change_meta(path: Path, honest: Honest, rng: np.random.Generator) -> None:
    if rng.random() < 0.4:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    try:
        path.write_text(tomlkit.dumps(mutated(honest.meta, rng)))
    except Exception:  # not everything can be written as TOML
        path.write_bytes(b"name = " + repr(strange(rng)).encode(errors="replace"))


def _change_plans(path: Path, lines: list[str], rng: np.random.Generator) -> None:
    kind = rng.random()
    if kind < 0.1:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    if kind < 0.15:
        path.rename(path.with_name(str(rng.choice(["../x", "x", f"x{SUFFIX}", ".hidden"])).replace("/", "_")))
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


def _compare(says: Submission, honest: Submission) -> None:
    """Verified latencies stand; what a submission declares of itself, and what its times were, nobody can know."""
    if replace(says.meta, **_declared(honest)) != honest.meta:
        raise Wrong(f"another description is accepted: {says.meta}")
    if len(says.entries) != len(honest.entries):
        raise Wrong(f"{len(says.entries)} runs are accepted")
    for mine, theirs in zip(says.entries, honest.entries, strict=True):
        if mine.key != theirs.key:
            raise Wrong(f"the run of {mine.key} is accepted for that of {theirs.key}")
        if mine.latency_ps != theirs.latency_ps:
            raise Wrong(f"{mine.latency_ps} ps is accepted, where the plan takes {theirs.latency_ps}")


def _declared(honest: Submission) -> dict[str, Any]:
    names = ("name", "agent", "options", "authors", "link", "licence", "hardware", "training")
    return {name: getattr(honest.meta, name) for name in names}
