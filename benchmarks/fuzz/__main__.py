"""The campaign, `make fuzz`: hostile input of every kind, in workers that may die; goes on where it was stopped.

`python -m benchmarks.fuzz` runs what is missing and prints the table and what failed as JSON, `--replay KIND CASE` runs
one case here and shows its traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.fuzz import kinds
from benchmarks.fuzz.campaign import Record, run_chunk
from benchmarks.fuzz.tables import RESULTS, table
from benchmarks.fuzz.worker import kind_module, outcome
from benchmarks.ledger import Ledger

CHUNK = 1000


def names() -> list[str]:
    """The kinds of cases that there are."""
    return sorted(module.name for module in pkgutil.iter_modules(kinds.__path__) if not module.name.startswith("_"))


def settings(kind: str, seed: int, share: float) -> list[Record]:
    """The chunks of a kind's campaign."""
    cases = max(1, round(kind_module(kind).CASES * share))
    return [
        {"kind": kind, "seed": seed, "first": first, "stop": min(cases, first + CHUNK)}
        for first in range(0, cases, CHUNK)
    ]


def replay(kind: str, seed: int, number: int) -> None:
    """Run one case here and print what became of it."""
    module = kind_module(kind)
    with tempfile.TemporaryDirectory(prefix="memplace-fuzz-") as scratch:
        what, detail = outcome(module, module.prepare(Path(scratch)), seed, number, Path(scratch))
    print(what, detail, sep="\n")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", nargs="+", choices=names(), default=names(), metavar="KIND", help="these only")
    parser.add_argument("--share", type=float, default=1.0, help="share of each kind's cases, above 0")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--ledger", type=Path, default=RESULTS / "fuzz.jsonl", help="file that is gone on with")
    parser.add_argument("--replay", nargs=2, metavar=("KIND", "CASE"))
    arguments = parser.parse_args()
    if arguments.replay:
        return replay(arguments.replay[0], arguments.seed, int(arguments.replay[1]))
    wanted = [each for kind in arguments.kind for each in settings(kind, arguments.seed, arguments.share)]
    ledger = Ledger(arguments.ledger, ("kind", "seed", "first", "stop"))
    with ThreadPoolExecutor(arguments.workers) as pool:
        records = ledger.complete(wanted, run_chunk, pool)
    print(table(records))
    print(json.dumps([failure | {"kind": each["kind"]} for each in records for failure in each["failures"]], indent=1))


if __name__ == "__main__":
    main()
