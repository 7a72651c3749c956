"""Measure the kernels of the one-shot environments against plain C and print JSON: `python -m benchmarks.plain_c`.

`one_shot.c` is the same rule over the same arrays, compiled by gcc with `-O3`, with and without `-march=native`. All
costs and levels of all assignments must be equal before anything is timed. Rates are assignments per processor second
of one thread, the best of several rounds in which kernels and C take turns; a ratio of 1 is the speed of C. On a busy
machine rates vary, ratios hardly.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import memplace_env  # noqa: F401  (registers the environments)
from benchmarks.plain_c.one_shot import compiled, evaluate_in_c
from memplace_env.placement.compiler.evaluate import Evaluation, evaluate_assignments
from memplace_env.placement.compiler.placing_order import schedule_of
from memplace_env.program.program import Ints

IDS = ("MemPlace-BERT-v0", "MemPlace-ResNet50-v0")
FLAGS = {"-O3": ("-O3",), "-O3 -march=native": ("-O3", "-march=native")}
KERNELS = "kernels"
COUNT = 4096
CHANGED = 0.03
"""Fraction of native's levels that are drawn anew for assignments near it; our choice."""
ROUNDS = 15


def assignments_of(problem: Any, count: int) -> dict[str, Ints]:
    """Return assignments int64[count, M] that are random, and near native's, where memory is full."""
    rng = np.random.default_rng(0)
    random, drawn = rng.integers(0, problem.task.backing + 1, (2, count, problem.num_decisions))
    near = np.where(rng.random(random.shape) < CHANGED, drawn, problem.native_assignment)
    return {"random": random, "near_native": near}


def require_equal(kernels: Evaluation, c: Evaluation, where: str) -> None:
    """Raise AssertionError unless every latency, energy, count of bytes and level is the same."""
    for name in Evaluation._fields:
        ours, theirs = np.atleast_2d(getattr(kernels, name).T, getattr(c, name).T)
        different = int((ours != theirs).any(axis=0).sum())
        if different:
            raise AssertionError(f"{where}: {name} of {different} in {ours.shape[1]} assignments differs.")


def rates(runs: dict[str, Callable[[], Evaluation]], rounds: int) -> dict[str, float]:
    """Return assignments per processor second of each run, the best of the rounds."""
    best = dict.fromkeys(runs, 0.0)
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.process_time()
            count = len(run().latency_ps)
            best[name] = max(best[name], count / (time.process_time() - begin))
    return best


def measure(env_id: str, folder: Path, count: int = COUNT, rounds: int = ROUNDS) -> dict[str, Any]:
    """Return rates and ratios of an environment's evaluation, after a check that both compute the same."""
    problem = gym.make(env_id).unwrapped.problem  # type: ignore[attr-defined]
    schedule = schedule_of(problem.task, "weights-before-results")
    libraries = {name: compiled(folder, *flags) for name, flags in FLAGS.items()}
    figures: dict[str, Any] = {}
    for kind, assignments in assignments_of(problem, count).items():
        runs: dict[str, Callable[[], Evaluation]] = {
            KERNELS: partial(evaluate_assignments, schedule, assignments, problem.decision_of, threads=1)
        }
        for name, library in libraries.items():
            runs[name] = partial(evaluate_in_c, library, schedule, assignments, problem.decision_of)
            require_equal(runs[KERNELS](), runs[name](), f"{env_id}, {kind}, gcc {name}")
        per_s = rates(runs, rounds)
        figures[kind] = {
            "equal": count,
            "per_cpu_s": {name: round(rate) for name, rate in per_s.items()},
            "ratio": {f"to C {name}": round(per_s[KERNELS] / per_s[name], 2) for name in FLAGS},
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"at least 1 (default {ROUNDS})")
    rounds = parser.parse_args().rounds
    if rounds < 1:
        parser.exit(2, f"--rounds must be at least 1, not {rounds}.\n")
    if shutil.which("gcc") is None:
        parser.exit(2, "There is no gcc on the path; install it to compare the kernels with C.\n")
    version = subprocess.run(["gcc", "-dumpfullversion"], check=True, capture_output=True, text=True).stdout.strip()
    machine = {"processor": platform.processor() or platform.machine(), "gcc": version}
    with tempfile.TemporaryDirectory() as folder:
        figures = {env_id: measure(env_id, Path(folder), rounds=rounds) for env_id in IDS}
    print(json.dumps({"machine": machine, **figures}, indent=2))


if __name__ == "__main__":
    main()
