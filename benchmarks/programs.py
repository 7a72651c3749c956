"""Measure the zoo: every program with its family, its counts, and the cost of loading it.

    python -m benchmarks.programs                          # two tables
    python -m benchmarks.programs --write docs/programs.md

Each program is loaded in a process of its own, at the zoo's default dims and in the file's own types. The independent
count is PyTorch's own counter on the module that was exported, and XLA's on the function that was lowered
(tests/program/zoo_counts.json).
"""

from __future__ import annotations

import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.progress import track

from benchmarks.ledger import Record
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_env.leaderboard import group_split
from memplace_env.placement.workloads import is_built, resolve_workload
from memplace_env.program.program import TensorKind
from memplace_env.program.zoo import Listing, catalogue, zoo_path
from memplace_env.report.quantities import count, size

COUNTS = Path(__file__).parents[1] / "tests" / "program" / "zoo_counts.json"


def measure(name: str) -> Record:
    """Return a program's counts, and the seconds and bytes that a process needs to load it."""
    start = time.perf_counter()
    fused = resolve_workload(name)
    seconds = time.perf_counter() - start
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    plain = fused if is_built(name) else resolve_workload(name, fusion="none")
    return {
        "name": name,
        "ops": fused.num_ops,
        "ops_unfused": plain.num_ops,
        "macs": int(plain.macs.sum()),
        "flops": int(2 * plain.macs.sum() + plain.vector_ops.sum()),
        "weight_bytes": plain.bytes_of(TensorKind.WEIGHT),
        "peak_live_bytes": int(fused.live_bytes.max()),
        "file_bytes": zoo_path(name).stat().st_size,
        "seconds": seconds,
        "resident_bytes": resident,
    }


def families() -> str:
    """Return a Markdown table with a row for each family: source of the code, licence, split."""
    members: dict[str, list[Listing]] = {}
    for listing in catalogue().values():
        members.setdefault(listing.family, []).append(listing)
    rows = [
        [family, group[0].group, group[0].kind, group_split(group[0].group), *sources(group), ", ".join(names)]
        for family, group in sorted(members.items(), key=lambda item: item[0].lower())
        for names in [[listing.name for listing in group]]
    ]
    return markdown_table(["family", "group", "kind", "split", "code", "licence", "programs"], rows)


def sources(members: list[Listing]) -> tuple[str, str]:
    """Return the sources of a family's code and its licences."""
    codes, licences = (dict.fromkeys(getattr(listing, field) for listing in members) for field in ("code", "licence"))
    return "; ".join(codes), ", ".join(licences)


def table(records: list[Record]) -> str:
    """Return a Markdown table with a row for each program, by family."""
    counts = json.loads(COUNTS.read_text("utf-8"))
    listings = catalogue()
    headers = ["program", "family", "parameters", "MACs", "of the count", "ops", "fused", "weights", "most alive"]
    rows = []
    for record in sorted(records, key=lambda r: (listings[r["name"]].family.lower(), r["name"].lower())):
        counted = counts.get(record["name"], {})
        unit = next((key for key in ("macs", "flops") if counted.get(key)), None)
        agrees = f"{record[unit] / counted[unit]:.4f}" if unit else "–"
        rows.append(
            [
                record["name"],
                listings[record["name"]].family,
                count(counted["parameters"]) if counted.get("parameters") else "–",
                count(record["macs"]),
                agrees,
                str(record["ops_unfused"]),
                str(record["ops"]),
                size(record["weight_bytes"]),
                size(record["peak_live_bytes"]),
                f"{record['file_bytes'] / 1e3:.0f}",
                f"{record['seconds']:.2f}",
                f"{record['resident_bytes'] / 2**20:.0f}",
            ]
        )
    return markdown_table([*headers, "file kB", "load s", "MiB"], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        records = [*track(pool.map(measure, catalogue()), "loading", len(catalogue()))]
    publish({"families": families(), "programs": table(records)}, options.write)


if __name__ == "__main__":
    main()
