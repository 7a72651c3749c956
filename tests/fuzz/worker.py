"""Run as a worker of the campaign: cases of one kind, one after the other, each with a line of JSON.

`python -m tests.fuzz.worker KIND SEED FIRST STOP`; the campaign starts it, and it may die at any case.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np

from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.foreign import SENTENCE
from tests.fuzz import Wrong

DATA_BYTES = 6 * 2**30
"""Limit of a worker's memory, which protects the machine."""
_DETAIL = 2_000


def kind_module(kind: str) -> ModuleType:
    """Return the module of a kind: one of `kinds/`, or any other by its dotted name."""
    return import_module(kind if "." in kind else f"tests.fuzz.kinds.{kind}")


def outcome(module: ModuleType, prepared: Any, seed: int, number: int, folder: Path) -> tuple[str, str]:
    """Return the outcome of a case ("accepted", "refused" or its failure), and the message or traceback."""
    with _lost_exceptions() as lost:
        what, detail = _outcome(module, prepared, seed, number, folder)
    return ("traceback", lost[0]) if lost and what in ("accepted", "refused") else (what, detail)


@contextmanager
def _lost_exceptions() -> Iterator[list[str]]:
    """Collect the tracebacks of exceptions in threads and finalisers, which Python prints and forgets."""
    lost: list[str] = []

    def keep(exception: Any) -> None:
        parts = exception.exc_type, exception.exc_value, exception.exc_traceback
        lost.append("".join(traceback.format_exception(*parts)))

    before = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = threading.excepthook = keep
    try:
        yield lost
    finally:
        sys.unraisablehook, threading.excepthook = before


def _outcome(module: ModuleType, prepared: Any, seed: int, number: int, folder: Path) -> tuple[str, str]:
    rng = np.random.default_rng([seed, crc32(module.NAME.encode()), number])
    try:
        return ("accepted" if module.case(prepared, rng, folder) else "refused"), ""
    except MemPlaceError as error:
        message = str(error)
        sound = message.isprintable() and 0 < len(message) <= SENTENCE + 100
        return ("refused" if sound else "unreadable"), message
    except Wrong as error:
        return "wrong", str(error)
    except MemoryError:
        return "memory", traceback.format_exc()
    except BaseException:
        return "traceback", traceback.format_exc()


def peak_mib() -> int:
    """Return the peak of this process's memory since the last call of `forget_peak`, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def children_mib() -> int:
    """Return the highest peak of any process that this one has started and waited for, in MiB."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024


def forget_peak() -> None:
    """Reset the peak."""
    Path("/proc/self/clear_refs").write_text("5")


def serve(kind: str, seed: int, first: int, stop: int) -> None:
    """Run the cases; print a line when one is done."""
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a case prints belongs nowhere
    module = kind_module(kind)
    with tempfile.TemporaryDirectory(prefix="memplace-fuzz-") as scratch:
        prepared = module.prepare(Path(scratch))
        warnings.simplefilter("error")
        resource.setrlimit(resource.RLIMIT_DATA, (DATA_BYTES, DATA_BYTES))
        lines.write("{}\n")
        for number in range(first, stop):
            forget_peak()
            children = children_mib()
            begin = time.perf_counter()
            what, detail = outcome(module, prepared, seed, number, Path(scratch))
            spent = round(time.perf_counter() - begin, 4)
            grown = children_mib()
            peak = max(peak_mib(), grown if grown > children else 0)
            record = {"case": number, "outcome": what, "seconds": spent, "peak_mib": peak}
            if what not in ("accepted", "refused"):
                record["detail"] = detail[-_DETAIL:]
            lines.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    serve(sys.argv[1], *map(int, sys.argv[2:5]))
