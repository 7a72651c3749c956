"""Run the campaign of hostile input (`make fuzz`): cases of every kind, in workers that may die.

`python -m tests.fuzz` continues where it was stopped, and prints the table, and the failures as JSON; exit code 1 if
there are any.
`--replay KIND CASE` runs one case in this process and shows its traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.ledger import Ledger
from tests.fuzz import kinds
from tests.fuzz.campaign import Record, run_chunk
from tests.fuzz.tables import RESULTS, table
from tests.fuzz.worker import kind_module, outcome

CHUNK = 1000


def names() -> list[str]:
    """Return the kinds of cases."""
    return sorted(module.name for module in pkgutil.iter_modules(kinds.__path__) if not module.name.startswith("_"))


def settings(kind: str, seed: int, share: float) -> list[Record]:
    """Return the chunks of a kind's campaign."""
    cases = max(1, round(kind_module(kind).CASES * share))
    return [
        {"kind": kind, "seed": seed, "first": first, "stop": min(cases, first + CHUNK)}
        for first in range(0, cases, CHUNK)
    ]


def replay(kind: str, seed: int, number: int) -> None:
    """Run one case in this process and print its outcome."""
    module = kind_module(kind)
    with tempfile.TemporaryDirectory(prefix="memplace-fuzz-") as scratch:
        result, detail = outcome(module, module.prepare(Path(scratch)), seed, number, Path(scratch))
    print(result, detail, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", nargs="+", choices=names(), default=names(), metavar="KIND", help="only these kinds")
    parser.add_argument("--share", type=float, default=1.0, help="fraction of each kind's cases, above 0")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--ledger", type=Path, default=RESULTS / "fuzz.jsonl", help="file of records")
    parser.add_argument("--replay", nargs=2, metavar=("KIND", "CASE"))
    arguments = parser.parse_args()
    if arguments.replay:
        return replay(arguments.replay[0], arguments.seed, int(arguments.replay[1]))
    chunks = [chunk for kind in arguments.kind for chunk in settings(kind, arguments.seed, arguments.share)]
    ledger = Ledger(arguments.ledger, ("kind", "seed", "first", "stop"))
    with ThreadPoolExecutor(arguments.workers) as pool:
        records = ledger.complete(chunks, run_chunk, pool)
    print(table(records))
    failures = [failure | {"kind": record["kind"]} for record in records for failure in record["failures"]]
    print(json.dumps(failures, indent=1))
    sys.exit(int(bool(failures)))


if __name__ == "__main__":
    main()
