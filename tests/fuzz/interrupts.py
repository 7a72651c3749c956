"""Interrupts and kills of the command line at random moments.

    python -m tests.fuzz.interrupts --command solve --moments 100 --seed 0 --log interrupts.jsonl

Each moment is a fork of this process, which has everything imported, that runs one command and gets SIGINT, SIGTERM or
SIGKILL. Each moment is a line of JSON with the signal and the faults; moments in the log are not tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import memplace
from benchmarks.ledger import Ledger
from tests.fuzz import unheeded

MODEL = "synthetic:diamond?ops=9&seed=1"
AGENTS = {
    "one-shot": [
        "auto",
        "native",
        "density-greedy",
        "random",
        "greedy-dp",
        "local-search",
        "cross-entropy",
        "exact",
        "egrl",
    ],
    "dynamic": ["exact-dynamic"],
    "game": [
        "portfolio",
        "exact",
        "xla-msa",
        "greedy-player",
        "game-local-search",
        "cross-entropy",
    ],
}
LEADERBOARD = ["leaderboard", "run", "random", "--suite", "quick-v1", "--budget", "10", "--no-check", "--out", "out"]
_HANG_S = 60.0
_SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
_CLI = ["app", "agent_run", "solve_result"]
MODULES = [
    *(f"memplace_env.cli.{name}" for name in _CLI),
    "memplace_env.report.plans.memory_map",
    "memplace_agents",
    "matplotlib.figure",
    "highspy",
    "torch",
]
"""Import once; run nothing here, as threads would not exist in a fork."""


class Ended(NamedTuple):
    """End of a command: its exit code (negative for a signal, None if it did not end) and its stderr."""

    code: int | None
    said: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", choices=("solve", "leaderboard"), default="solve")
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="Lines are kept here too; those that are there are not tried again.")
    given = parser.parse_args()
    ledger = Ledger(given.log or Path(os.devnull), ("command", "seed", "moment"))
    for module in MODULES:
        import_module(module)
    tried = solves if given.command == "solve" else resumptions
    lines = []
    for number, trial in tried(given.moments):
        setting = {"command": given.command, "seed": given.seed, "moment": number}
        if ledger.missing([setting]):
            with tempfile.TemporaryDirectory(prefix="interrupts-") as place:
                found = trial(np.random.default_rng([given.seed, number]), Path(place))
            ledger.add(setting | found)
        lines += ledger.of([setting])
        print(json.dumps(lines[-1]), flush=True)
    ignored = unheeded(sent for line in lines for sent in signals_of(line))
    for name in ignored:
        print(f"{name} ended no command.", file=sys.stderr)
    sys.exit(int(bool(ignored) or any(line["wrong"] for line in lines)))


def signals_of(line: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the signals of a moment, each with the exit code of the command that got it."""
    if "signal" in line:
        return [(line["signal"], line["code"])]
    return [(name, code) for name, _, code in line["interrupts"]]


Trial = Callable[[np.random.Generator, Path], dict[str, Any]]


def solves(moments: int) -> Iterator[tuple[int, Trial]]:
    """Interrupt `memplace solve` of a tiny model, agent after agent."""
    agents = [(formulation, agent) for formulation, names in AGENTS.items() for agent in names]
    lasts: dict[str, float] = {}

    def trial(formulation: str, agent: str) -> Trial:
        command = ["solve", MODEL, "--formulation", formulation, "--agent", agent, "--budget", "400"]
        command += ["--time-limit", "2", "--bound", "0.2", "--out", "out"]

        def tried(rng: np.random.Generator, place: Path) -> dict[str, Any]:
            if agent not in lasts:
                begun = time.monotonic()
                ended = run(command, place / "whole", limit_s=600)  # kernels may have to be compiled
                lasts[agent] = time.monotonic() - begun
                assert ended.code == 0, ended
            number, after = _SIGNALS[rng.integers(3)], float(rng.uniform(0, 1.05 * lasts[agent]))
            ended = run(command, place / "cut", after, number)
            return {
                "agent": agent,
                "formulation": formulation,
                "signal": number.name,
                "after_s": round(after, 3),
                "code": ended.code,
                "wrong": wrongs_of_solve(ended, number, place / "cut") or wrong_replay(place / "cut"),
            }

        return tried

    for moment in range(moments):
        yield moment, trial(*agents[moment % len(agents)])


def resumptions(moments: int) -> Iterator[tuple[int, Trial]]:
    """Interrupt `memplace leaderboard run` again and again until it ends; each interrupt is a moment."""
    whole: list[Any] = []

    def tried(rng: np.random.Generator, place: Path) -> dict[str, Any]:
        if not whole:
            begun = time.monotonic()
            ended = run(LEADERBOARD, place / "whole", limit_s=600)
            lasts.append(time.monotonic() - begun)
            assert ended.code == 0, ended
            whole.append(submission(place / "whole" / "out"))
        told, wrong = [], ""
        for _ in range(20):
            number, after = _SIGNALS[rng.integers(3)], float(rng.uniform(0, 0.7 * lasts[0]))
            ended = run(LEADERBOARD, place / "cut", after, number)
            told.append([number.name, round(after, 3), ended.code])
            wrong = wrong_end(ended, number) or wrong_submission(place / "cut" / "out")
            if wrong or ended.code == 0:
                break
        else:
            ended = run(LEADERBOARD, place / "cut", limit_s=600)
            wrong = "" if ended.code == 0 else f"it does not go on: {ended}"
        wrong = wrong or wrong_result(place / "cut" / "out", whole[0])
        return {"interrupts": told, "wrong": wrong}

    lasts: list[float] = []
    for moment in range(moments):
        yield moment, tried


def submission(out: Path) -> tuple[list[str], Any]:
    """Return the names of a submission's files, and its contents without seconds."""
    from memplace_leaderboard.verifying import read

    found = read(out)
    runs = [
        replace(
            entry,
            seconds=0.0,
            processor_seconds=None,
            curve=tuple(point._replace(seconds=0.0) for point in entry.curve),
        )
        for entry in found.entries
    ]
    return sorted(str(path.relative_to(out)) for path in out.rglob("*")), (found.meta, runs)


def run(command: list[str], place: Path, after_s: float = 0, number: int = 0, limit_s: float = _HANG_S) -> Ended:
    """Run a command line in a fork of this process and in its own folder, and send a signal to it."""
    place.mkdir(parents=True, exist_ok=True)
    begun, said = place.parent / "begun", place.parent / "stderr"
    begun.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        _be(command, place, begun, said)
    while not begun.exists():
        time.sleep(0.001)
    if number:
        time.sleep(after_s)
        with suppress(ProcessLookupError):
            os.kill(child, number)
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return Ended(os.waitstatus_to_exitcode(status), said.read_text(errors="replace"))
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Ended(None, said.read_text(errors="replace"))


def _be(command: list[str], place: Path, begun: Path, said: Path) -> None:
    """Run a command line in this forked process."""
    code = 70
    try:
        os.chdir(place)
        nothing, errors = os.open(os.devnull, os.O_RDWR), os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream, handle in ((0, nothing), (1, nothing), (2, errors)):
            os.dup2(handle, stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.argv = ["memplace", *command]
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, memplace._leave)
        begun.touch()
        memplace.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wrong_end(ended: Ended, number: int) -> str:
    """Return the faults of the end of a command that got a signal; empty if there are none."""
    if ended.code is None:
        return f"hangs: {ended.said[-500:]}"
    if "Traceback" in ended.said or "Exception ignored" in ended.said:
        return f"traceback: {ended.said[-1500:]}"
    allowed = {0, -signal.SIGKILL} if number == signal.SIGKILL else {0, 130}
    return "" if ended.code in allowed else f"exit code {ended.code}: {ended.said[-500:]}"


def wrongs_of_solve(ended: Ended, number: int, place: Path) -> str:
    """Return the faults of the end of a search and of its files; empty if there are none."""
    from memplace_env.placement.memory_plan import MemoryPlan

    if wrong := wrong_end(ended, number):
        return wrong
    left = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    plan = place / "out" / "plan.json"
    try:
        if plan.exists():
            MemoryPlan.load(plan)
        if (plan.parent / "trace.json").exists():
            json.loads((plan.parent / "trace.json").read_bytes())
        if (plan.parent / "plan.png").exists() and b"IEND" not in (plan.parent / "plan.png").read_bytes()[-12:]:
            return "half a picture"
    except ValueError as error:
        return f"half a file: {error}"
    if number == signal.SIGKILL:
        return ""
    whole = ["out/plan.json", "out/plan.png", "out/trace.json"]
    if left not in ([], whole):
        return f"left behind: {left}"
    kept = ended.code == 0 or "the best plan so far is in out" in ended.said
    if kept != bool(left):
        return f"said {ended.said!r} with {left}"
    if not left and place.exists() and any(place.iterdir()):
        return f"left behind: {list(place.iterdir())}"
    return ""


def wrong_replay(place: Path) -> str:
    """Return how `memplace simulate` refuses the plan that was written; empty if it takes it, or there is none."""
    plan = place / "out" / "plan.json"
    if not plan.exists():
        return ""
    ended = run(["simulate", MODEL, str(plan)], place)
    return "" if ended.code == 0 else f"a plan that does not replay: {ended}"


def wrong_submission(out: Path) -> str:
    """Return what is half written in the folder of a submission that was interrupted; empty if nothing is."""
    from memplace_env._lib.errors import MemPlaceError
    from memplace_leaderboard.folder import META, RUNS, read_runs
    from memplace_leaderboard.meta_file import read_meta

    try:
        if (out / META).exists():
            read_meta(out / META)
        if (out / RUNS).exists():
            list(read_runs(out / RUNS))
    except MemPlaceError as error:
        return f"half a file: {error}"
    return ""


def wrong_result(out: Path, whole: Any) -> str:
    """Return how a submission differs from an undisturbed one; empty if it does not."""
    from memplace_env._lib.errors import MemPlaceError

    try:
        return "" if submission(out) == whole else "another result than without interrupts"
    except MemPlaceError as error:
        return f"no submission in the end: {error}"


if __name__ == "__main__":
    main()
