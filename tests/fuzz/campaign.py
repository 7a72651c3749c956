"""Chunks of cases in workers that may hang, crash or grow; the next worker continues after that case."""

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
"""Limits of a case: seconds, and memory of the process that reads it."""
START_S = 300.0
"""Time limit for the start of a worker, which may have to compile kernels."""
FAILURES = ("traceback", "unreadable", "wrong", "crash", "hang", "memory")
KEPT = 20
"""Most failures of a chunk whose details are recorded."""

Record = dict[str, Any]


def run_chunk(setting: Record) -> Record:
    """Return the outcomes of a kind's cases from `first` to before `stop`.

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
    """Yield a record of each case, also of those over which a worker died."""
    first, stop = setting["first"], setting["stop"]
    while first < stop:
        command = [sys.executable, "-m", "tests.fuzz.worker", setting["kind"], str(setting["seed"])]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                [*command, str(first), str(stop)], stdout=subprocess.PIPE, stderr=errors, env=_environment()
            ) as worker,
        ):
            try:
                for case in _records_of(worker, errors):
                    first = case["case"] + 1
                    yield case
                if first < stop:
                    yield _lost(worker, errors, first)
                    first += 1
            finally:
                worker.kill()


def _records_of(worker: subprocess.Popen[bytes], errors: IO[bytes]) -> Iterator[Record]:
    """Yield a worker's records until it is silent for too long or dead."""
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
    """Return the record of a case over which a worker hangs or died."""
    try:
        worker.wait(0.5)  # a dead one closes its pipe before it can be waited for
        hangs = False
    except subprocess.TimeoutExpired:
        hangs = True
    worker.kill()
    result = "hang" if hangs else "crash"
    detail = "" if hangs else f"the worker ended with {worker.wait()}: {_end_of(errors)}"
    return {"case": number, "outcome": result, "seconds": 2 * HANG_S if hangs else 0.0, "peak_mib": 0, "detail": detail}


def _end_of(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode(errors="replace")[-1000:]


def _environment() -> dict[str, str]:
    """Return an environment with one thread, as workers run side by side."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
