"""Training that is disturbed at any moment and resumed: `python -m tests.fuzz.kills --agent egrl --moments 100`.

At each moment a small `memplace train` runs in a process of its own until it is killed (after so many seconds, at so
many calls that open, rename, remove or lock a file, or inside a write, by the kernel), interrupted like by Ctrl-C, or
finds that there is no room for a file. What it leaves must be whole. Then the same command goes on with --resume, is
perhaps disturbed again, and in the end has to have written what an undisturbed run writes, bit for bit but for seconds.

The process that starts all of them has loaded and compiled everything and forks: a moment takes a second or two.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from typer.main import get_command

from benchmarks.ledger import Ledger
from memplace_agents.built_in_agents import CHECKPOINT, CHECKPOINT_BYTES, POLICY
from memplace_agents.egrl import EGRL
from memplace_agents.learning import safe_files
from memplace_agents.muzero import MuZero
from memplace_agents.plan_gradient import PlanGradient
from memplace_env.cli.app import app
from memplace_env.placement.memory_plan import MemoryPlan
from tests.fuzz import Wrong, unheeded

PROGRAM = "synthetic:diamond?ops=9&seed=1"
GAME = "synthetic:diamond?ops=6&seed=1&accelerator=tpu-v4i"
COMMANDS = {
    "egrl": f"{PROGRAM} --budget 400 --set population=6 --set elites=2 --set hidden=8 --set depth=2 --set batch=8",
    "muzero": f"{GAME} --formulation game --budget 90 --set games=4 --set decisions=5 --set simulations=2 "
    "--set batch=8 --set hidden=8 --set annealing=2",
    "plan-gradient": f"{PROGRAM} --budget 400",
}
"""Small runs, with some ten checkpoints each."""

WAYS = ("killed after seconds", "killed at a call", "killed in a write", "interrupted", "no room")
CALLS = ("open", "os.rename", "os.remove", "os.mkdir", "os.scandir", "os.truncate", "os.chmod", "fcntl.flock")
"""Calls that Python audits, see sys.audit."""
MEMPLACE = get_command(app)
"""Ctrl-C is tried after the command line was built."""
HANG_S = 120.0
_INTERRUPTED = 130


class Disturbance(NamedTuple):
    """A disturbance of a run.

    Attributes:
        way: one of `WAYS`.
        seconds: after which it is killed or interrupted.
        call: number of the call at which it is killed, or from which on files can have no more than `size` bytes.
        size: see there.
    """

    way: str
    seconds: float
    call: int
    size: int


class Ended(NamedTuple):
    """End of a run: exit code or minus the signal, stderr, calls and seconds."""

    code: int
    stderr: str
    calls: int
    seconds: float


def train(agent: str, out: Path, disturbance: Disturbance | None = None) -> Ended:
    """Run the agent's command in a fork of this process.

    Raises:
        Wrong: if it does not end.
    """
    command = ["train", agent, *COMMANDS[agent].split(), "--resume", "--out", str(out)]
    reading, writing = os.pipe()
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run(command, writing, disturbance)
    os.close(writing)
    signals = {WAYS[0]: signal.SIGKILL, WAYS[3]: signal.SIGINT}
    pending = disturbance is not None and disturbance.way in signals
    said = b""
    while True:
        left = begin + HANG_S - time.monotonic()
        if disturbance is not None and pending:
            left = begin + disturbance.seconds - time.monotonic()
        ready = select.select([reading], [], [], max(left, 0.0))[0]
        if ready:
            part = os.read(reading, 2**16)
            if not part:
                break
            said += part
        elif disturbance is not None and pending:
            pending = False
            os.kill(pid, signals[disturbance.way])
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise Wrong(f"a run hangs: {disturbance}")
    os.close(reading)
    status = os.waitpid(pid, 0)[1]
    *_, calls = said.split(b"\0") if b"\0" in said else (b"0",)
    stderr = said.split(b"\0")[0].decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status), stderr, int(calls or 0), time.monotonic() - begin)


def _run(command: list[str], writing: int, disturbance: Disturbance | None) -> None:
    """Run in the forked process: write stderr to a pipe, then the number of calls."""
    calls = 0

    def audit(event: str, _: tuple[Any, ...]) -> None:
        nonlocal calls
        if event not in CALLS:
            return
        calls += 1
        if disturbance is None or calls != disturbance.call:
            return
        if disturbance.way == WAYS[1]:
            os.kill(os.getpid(), signal.SIGKILL)
        elif disturbance.way in (WAYS[2], WAYS[4]):
            resource.setrlimit(resource.RLIMIT_FSIZE, (disturbance.size, resource.RLIM_INFINITY))

    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(writing, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if disturbance and disturbance.way == WAYS[2] else signal.SIG_IGN)
        sys.addaudithook(audit)
        MEMPLACE.main(args=command, prog_name="memplace")
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os.write(writing, b"\0%d" % calls)
        os._exit(code)


def state(agent: str, out: Path) -> dict[str, Any]:
    """Return what a finished run has written, without seconds and curves, in a form that == compares bit for bit."""
    folder = out / "seed-0"
    names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if "tensorboard" not in path.parts)
    return {
        "names": names,
        "run": (out / "run.json").read_bytes(),
        "plan": (folder / "plan.json").read_bytes(),
        "policy": (folder / POLICY).read_bytes(),
        "history": _timeless(json.loads((folder / "history.json").read_text())),
        "checkpoint": _timeless(safe_files.load(folder / CHECKPOINT, f"{agent}-run/2", CHECKPOINT_BYTES)),
    }


def _timeless(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        kept = {name: _timeless(part) for name, part in value.items() if name != "seconds"}
        if isinstance(kept.get("history"), list):
            kept["history"] = [part[:1] + part[2:] if isinstance(part, list) else part for part in kept["history"]]
        return kept
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def check_whole(agent: str, out: Path) -> None:
    """Check that all files of a disturbed run are whole.

    Raises:
        Wrong: if one is not.
    """
    readers = {
        "run.json": lambda path: json.loads(path.read_text()),
        "history.json": lambda path: json.loads(path.read_text()),
        "plan.json": MemoryPlan.load,
        POLICY: lambda path: safe_files.load(
            path, {"egrl": EGRL, "muzero": MuZero, "plan-gradient": PlanGradient}[agent].network.KIND
        ),
        CHECKPOINT: lambda path: safe_files.load(path, f"{agent}-run/2", CHECKPOINT_BYTES),
    }
    for path in out.rglob("*"):
        if path.is_file() and "tensorboard" not in path.parts and not path.name.endswith(".new"):
            try:
                readers[path.name](path)
            except Exception as error:
                raise Wrong(f"{path.name} is not whole: {error!r}") from error


def check_end(ended: Ended, disturbance: Disturbance, left: set[Path]) -> None:
    """Check that a disturbed run ended as it should.

    Raises:
        Wrong: if it did not.
    """
    wanted = dict(zip(WAYS, (-signal.SIGKILL, -signal.SIGKILL, -signal.SIGXFSZ, _INTERRUPTED, 2), strict=True))
    if ended.code not in (0, wanted[disturbance.way]):
        raise Wrong(f"{disturbance} ended with {ended.code}: {ended.stderr[-2000:]}")
    if "Traceback" in ended.stderr:
        raise Wrong(f"{disturbance} ended with a traceback: {ended.stderr[-3000:]}")
    if ended.code > 0 and left:
        raise Wrong(f"{disturbance} left {left}")


def check_same(agent: str, out: Path, expected: dict[str, Any]) -> None:
    """Check that a run that ended by itself has written what an undisturbed one writes.

    Raises:
        Wrong: if it has not.
    """
    try:
        found = state(agent, out)
    except (OSError, ValueError) as error:
        raise Wrong(f"files are missing or damaged in the end: {error}") from error
    other = [part for part, value in expected.items() if found[part] != value]
    if other:
        raise Wrong(f"other {', '.join(other)} in the end")


def moments(agent: str, numbers: Iterable[int], seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    """Disturb runs of an agent: a row for each number, with what was wrong, if anything was.

    Raises:
        Wrong: if undisturbed runs fail or differ.
    """
    torch.set_num_threads(1)
    for kind in (EGRL, MuZero, PlanGradient):
        kind.__init__.__kwdefaults__["every"] = 1  # checkpoint
    _warm_up(agent, folder / "warm")
    undisturbed = [train(agent, folder / name) for name in ("whole", "again")]
    whole = min(undisturbed, key=lambda ended: ended.seconds)
    expected, again = (state(agent, folder / name) for name in ("whole", "again"))
    if any(ended.code for ended in undisturbed) or expected != again:
        raise Wrong(f"undisturbed runs fail or differ: {undisturbed}")
    size = (folder / "whole" / "seed-0" / CHECKPOINT).stat().st_size
    for number in numbers:
        rng, happened = np.random.default_rng([seed, number]), []
        for second in range(1 + int(rng.random() < 0.3)):
            way = WAYS[(number + second * int(rng.integers(len(WAYS)))) % len(WAYS)]
            seconds, call = rng.uniform(0, whole.seconds), int(rng.integers(1, whole.calls + 1))
            happened.append(Disturbance(way, seconds, call, int(np.exp(rng.uniform(0, np.log(size))))))
        row = {"agent": agent, "seed": seed, "number": number, "happened": [each._asdict() for each in happened]}
        try:
            codes, rounds = _disturb(agent, folder / str(number), happened, expected)
            row |= {"codes": codes, "rounds": rounds, "same": True}
        except Wrong as wrong:
            row |= {"same": False, "wrong": str(wrong)}
        shutil.rmtree(folder / str(number), ignore_errors=True)
        yield row


def _disturb(
    agent: str, out: Path, happened: list[Disturbance], expected: dict[str, Any]
) -> tuple[list[int], list[int]]:
    """Disturb and resume a run until its expected end; return exit codes and the rounds in checkpoints on the way.

    Raises:
        Wrong: if it leaves what is not whole, or does not come to that end.
    """
    codes, rounds = [], []
    for disturbance in happened:
        before = set(out.rglob("*.new"))  # of one that was killed
        ended = train(agent, out, disturbance)
        codes.append(ended.code)
        check_end(ended, disturbance, set(out.rglob("*.new")) - before)
        check_whole(agent, out)
        if ended.code == 0:
            check_same(agent, out, expected)
        checkpoint = out / "seed-0" / CHECKPOINT
        there = checkpoint.exists()
        rounds.append(safe_files.load(checkpoint, f"{agent}-run/2", CHECKPOINT_BYTES)["run"]["round"] if there else 0)
    going_on = train(agent, out)
    if going_on.code or "Traceback" in going_on.stderr:
        raise Wrong(f"it does not go on: {going_on.stderr}")
    check_same(agent, out, expected)
    return codes, rounds


def _warm_up(agent: str, out: Path) -> None:
    """Load and compile everything in this process, and wait until the threads of that have ended.

    A thread that is ending gives its buffers back to MKL under a lock; a fork at that moment would find it locked for
    ever.

    Raises:
        Wrong: if threads go on.
    """
    before = _threads()
    try:
        MEMPLACE.main(
            args=["train", agent, *COMMANDS[agent].split(), "--out", str(out), "--json"], prog_name="memplace"
        )
    except SystemExit as ended:
        if ended.code:
            raise
    limit = time.monotonic() + HANG_S
    while _threads() - before:
        if time.monotonic() > limit:
            raise Wrong("threads go on after the end of a run")
        time.sleep(0.01)


def _threads() -> set[str]:
    """Return the numbers of this process's threads, by the kernel: Python's list ends earlier than they do."""
    return set(os.listdir("/proc/self/task"))


def main() -> None:
    """Print a line for each moment; those that the log has are not tried again. Exit code 1 if one was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", choices=COMMANDS, required=True)
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="default: out/fuzz/kills-AGENT-SEED.jsonl")
    given = parser.parse_args()
    log = given.log or Path("out") / "fuzz" / f"kills-{given.agent}-{given.seed}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(log, ("agent", "seed", "number"))
    settings = [{"agent": given.agent, "seed": given.seed, "number": number} for number in range(given.moments)]
    with os.fdopen(os.dup(1), "w", buffering=1) as table, tempfile.TemporaryDirectory() as folder:
        os.dup2(2, 1)  # the output of the command is no line of the table
        for row in ledger.of(settings):
            print(json.dumps(row), file=table)
        numbers = [setting["number"] for setting in ledger.missing(settings)]
        for row in moments(given.agent, numbers, given.seed, Path(folder)) if numbers else ():
            ledger.add(row)
            print(json.dumps(row), file=table)
    rows = ledger.of(settings)
    ignored = unheeded(sent for row in rows for sent in _codes(row))
    if ignored:
        print(f"Nothing was {' or '.join(ignored)}.", file=sys.stderr)
    sys.exit(int(bool(ignored) or not all(row["same"] for row in rows)))


def _codes(row: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the ways of a moment's disturbances, each with the exit code of the run."""
    return [(each["way"], code) for each, code in zip(row["happened"], row.get("codes", ()), strict=False)]


if __name__ == "__main__":
    main()
