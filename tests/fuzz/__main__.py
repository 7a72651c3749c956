"""Run the campaign of hostile input (`make fuzz`): cases of every kind, in workers that may die.

`python -m tests.fuzz` continues where it was stopped, and prints the table, and the failures as JSON; exit code 1 if
there are any. `--write docs/trust.md` puts the table there.
`--replay KIND CASE` runs one case in this process and shows its traceback.
"""

from __future__ import annotations

import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.ledger import Ledger
from benchmarks.tables import benchmark_parser, markdown_table, publish
from tests.fuzz import RESULTS, kinds
from tests.fuzz.campaign import FAILURES, Record, run_chunk
from tests.fuzz.worker import kind_module, outcome

CHUNK = 1000
_HEADS = ("input", "cases", "accepted", "refused", "failures", "slowest", "highest peak")
"""Columns of the table; failures are of all kinds in `FAILURES`."""


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


def table(records: Sequence[Record]) -> str:
    """Return the table of hostile input: a row for each kind, and one for all of them."""
    kinds = dict.fromkeys(record["kind"] for record in records)
    named = [(kind_module(kind).NAME, [record for record in records if record["kind"] == kind]) for kind in kinds]
    return markdown_table(_HEADS, [_row(name, own) for name, own in [*named, ("all", records)]])


def _row(name: str, records: Sequence[Record]) -> list[str]:
    counts = [sum(record[field] for record in records) for field in ("accepted", "refused")]
    counts.append(sum(record[field] for record in records for field in FAILURES))
    slowest, peak = (max(record[field] for record in records) for field in ("slowest_s", "peak_mib"))
    return [name, *(f"{count:,}" for count in (sum(counts), *counts)), f"{slowest:.1f} s", f"{peak:,} MiB"]


def main() -> None:
    parser = benchmark_parser(__doc__)
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
    publish({"fuzz": table(records)}, arguments.write)
    failures = [failure | {"kind": record["kind"]} for record in records for failure in record["failures"]]
    print(json.dumps(failures, indent=1))
    sys.exit(int(bool(failures)))


if __name__ == "__main__":
    main()
