"""Chunks of cases in workers that may hang, crash or grow; the next worker goes on behind the case that did it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

HANG_S = 10.0
PEAK_MIB = 2048
"""What a case may take: seconds, and memory of the process that reads it."""
START_S = 300.0
"""What a worker may take to start: its kernels may have to be compiled."""
FAILURES = ("traceback", "unreadable", "wrong", "crash", "hang", "memory")
KEPT = 20
"""Failures of a chunk whose details are kept."""

Record = dict[str, Any]


def run_chunk(setting: Record) -> Record:
    """What became of the cases from `first` to before `stop` of a kind.

    Args:
        setting: "kind", "seed", "first" and "stop".

    Returns:
        The setting with counts by outcome, the slowest case's seconds, the highest peak in MiB, and details of
        failures.
    """
    counts: Counter[str] = Counter()
    failures, slowest, peak, seconds = [], 0.0, 0, 0.0
    for case in _cases(setting):
        if case["outcome"] not in FAILURES and case["seconds"] > HANG_S:
            case["outcome"] = "hang"
        if case["outcome"] not in FAILURES and case["peak_mib"] > PEAK_MIB:
            case["outcome"] = "memory"
        counts[case["outcome"]] += 1
        slowest, peak = max(slowest, case["seconds"]), max(peak, case["peak_mib"])
        seconds += case["seconds"]
        if case["outcome"] in FAILURES and len(failures) < KEPT:
            failures.append(case)
    return {
        **setting,
        **{name: counts[name] for name in ("accepted", "refused", *FAILURES)},
        "seconds": round(seconds, 2),
        "slowest_s": slowest,
        "peak_mib": peak,
        "failures": failures,
    }


def _cases(setting: Record) -> Iterator[Record]:
    """Each case's record, whatever becomes of the workers."""
    first, stop = setting["first"], setting["stop"]
    while first < stop:
        command = [sys.executable, "-m", "benchmarks.fuzz.worker", setting["kind"], str(setting["seed"])]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                [*command, str(first), str(stop)], stdout=subprocess.PIPE, stderr=errors, env=_environment()
            ) as worker,
        ):
            try:
                for case in _told(worker, errors):
                    first = case["case"] + 1
                    yield case
                if first < stop:
                    yield _lost(worker, errors, first)
                    first += 1
            finally:
                worker.kill()


def _told(worker: subprocess.Popen[bytes], errors: IO[bytes]) -> Iterator[Record]:
    """What a worker tells, until it is silent for too long or dead."""
    assert worker.stdout is not None
    patience, rest, handle = START_S, b"", worker.stdout.fileno()
    started = False
    while select.select([handle], [], [], patience)[0]:
        read = os.read(handle, 2**16)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            if started:
                yield json.loads(line)
            started, patience = True, 2 * HANG_S
    if not started:
        raise SystemExit(f"A worker did not start: {_end_of(errors)}")


def _lost(worker: subprocess.Popen[bytes], errors: IO[bytes], number: int) -> Record:
    """The record of a case over which a worker hangs or died."""
    try:
        worker.wait(0.5)  # a dead one closes its pipe before it can be waited for
        hangs = False
    except subprocess.TimeoutExpired:
        hangs = True
    worker.kill()
    what = "hang" if hangs else "crash"
    detail = "" if hangs else f"the worker ended with {worker.wait()}: {_end_of(errors)}"
    return {"case": number, "outcome": what, "seconds": 2 * HANG_S if hangs else 0.0, "peak_mib": 0, "detail": detail}


def _end_of(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode(errors="replace")[-1000:]


def _environment() -> dict[str, str]:
    """One thread each, as workers run side by side."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
