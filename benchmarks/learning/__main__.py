"""The campaign behind every figure on learning agents, beside searches, rules and proofs, on quiet cores.

    python -m benchmarks.learning                      # all parts: some hours; `make learn` writes the pages, too
    python -m benchmarks.learning games steps --seeds 2
    python -m benchmarks.learning egrl --write         # and docs/egrl.md, its data files and pictures
    python -m benchmarks.learning --recorded           # prints what is recorded, of earlier versions of agents too

Seconds are processor seconds of one core. A run that was stopped continues with what is missing in
results/learning.jsonl. An agent whose code has changed since a record was written is measured again, so that no table
mixes two versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from benchmarks.cores import single_cores
from benchmarks.learning import ablations, egrl, games, open_games, steps, xla
from benchmarks.learning.part import DOCS, Part
from benchmarks.learning.runs import FIELDS, RESULTS, SETTING, complete, trials
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_env._lib.files import write_atomically

PARTS: Mapping[str, Part] = {
    "games": games.PART,
    "open": open_games.PART,
    "steps": steps.PART,
    "egrl": egrl.PART,
    "ablations": ablations.PART,
    "xla": xla.PART,
}


def records_of(part: Part, seeds: int, ledger: Ledger, pool: Executor | None) -> list[Record]:
    """Return a part's records; without a pool, those that are there."""
    records: list[Record] = []
    for _ in range(2):  # the second time with runs that depend on the first
        settings = part.runs(seeds, records)
        records = ledger.of(settings) if pool is None else complete(ledger, settings, pool)
    return records


def cost_table(seeds: int, ledger: Ledger) -> str:
    """Return a Markdown table with a row for each part: what is recorded, and what it took."""
    rows, every = [], dict[int, Record]()
    for name, part in PARTS.items():
        records = records_of(part, seeds, ledger, None)
        settings = part.runs(seeds, records)
        records += ledger.of(trials(settings))
        every |= {id(record): record for record in records}
        rows.append([name, f"{len(ledger.of(settings))} of {len(settings)}", *_costs(records)])
    rows.append(["all, runs of several parts once", "", *_costs(list(every.values()))])
    return markdown_table(["part", "runs", "processor hours", "most memory", "commits", "dates"], rows)


def _costs(records: Sequence[Record]) -> list[str]:
    hours = sum(record["took_s"] for record in records) / 3600
    memory = max((record.get("peak_mb", 0) for record in records), default=0)
    sources = [", ".join(sorted({record[field] for record in records})) for field in ("commit", "date")]
    return [f"{hours:.1f}", f"{memory:,} MB", *sources]


def main() -> None:
    parser = benchmark_parser(__doc__, writes=False)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of all solvers that depend on one (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, each on its own core (default 2)")
    parser.add_argument("--write", action="store_true", help="replace tables, data files and pictures in docs")
    parser.add_argument("--recorded", action="store_true", help="measure nothing; take records of any version")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]}; choose from {', '.join(PARTS)}")
    ledger = Ledger(RESULTS, SETTING if options.recorded else FIELDS)
    for name in options.parts or PARTS:
        part = PARTS[name]
        if options.recorded:
            records = records_of(part, options.seeds, ledger, None)
        else:
            with single_cores(options.jobs) as pool:
                records = records_of(part, options.seeds, ledger, pool)
        tables, data, pictures = part.show(records)
        publish(tables, [DOCS / page for page in part.documents] if options.write else [], data)
        for file, picture in pictures.items() if options.write else ():
            write_atomically(DOCS / "pictures" / file, picture)
    publish({"learning-cost": cost_table(options.seeds, ledger)}, [DOCS / "learning.md"] if options.write else [])


if __name__ == "__main__":
    main()
