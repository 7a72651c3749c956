"""Train other people's libraries on an environment of this package, and print what they reach and how fast.

    python -m benchmarks.libraries                             # 60 processor seconds each, on MallocGame-BERT-v0
    python -m benchmarks.libraries --seconds 10 --names skrl   # a short trial of one
    python -m benchmarks.libraries --write docs/libraries.md

Each library has a Python environment of its own below out/libraries, which is made at the first call, and one core.
A run that was stopped continues with what is missing in results/libraries.jsonl.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.cores import single_cores
from benchmarks.ledger import Ledger
from benchmarks.libraries.comparison import BY_NAME, FIELDS, glue, measure, runs, table
from benchmarks.libraries.environments import python_of
from benchmarks.tables import benchmark_parser, publish

RESULTS = Path(__file__).parents[1] / "results" / "libraries.jsonl"


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--names", nargs="+", choices=BY_NAME, default=list(BY_NAME), metavar="NAME", help="libraries")
    parser.add_argument("--env", default="MallocGame-BERT-v0", help="id of a game")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor seconds of each run")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each library")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, each on its own core")
    parser.add_argument("--only-write", action="store_true", help="measure nothing")
    options = parser.parse_args()
    settings = runs(options.names, options.env, options.seconds, options.seeds)
    ledger = Ledger(RESULTS, FIELDS)
    if not options.only_write:
        for name in options.names:
            python_of(BY_NAME[name])
        with single_cores(options.jobs) as pool:
            ledger.complete(settings, measure, pool, finished=lambda record: "error" not in record)
    records = ledger.of(settings)
    for record in records:
        if "error" in record:
            print(f"{record['library']}: {record['error']}")
    publish({"libraries": table(records), "glue": glue()}, options.write)


if __name__ == "__main__":
    main()
