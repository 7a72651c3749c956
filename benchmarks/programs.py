"""The zoo: every program with its family, what it counts, and what it takes to load.

    python -m benchmarks.programs                          # JSON
    python -m benchmarks.programs --write docs/programs.md

Each program is loaded in a process of its own, at the zoo's default dims and in the file's own types. The independent
count is PyTorch's own counter on the module that was exported, and XLA's on the function that was lowered
(tests/workload/zoo_counts.json).
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.progress import track

from benchmarks.ledger import Record
from benchmarks.tables import markdown, write_between_markers
from memplace_env.leaderboard import group_split
from memplace_env.views.text.quantities import count, size
from memplace_env.workload.program import TensorKind
from memplace_env.workload.resolve import is_built, resolve_workload
from memplace_env.workload.zoo import Listing, catalogue, zoo_path

COUNTS = Path(__file__).parents[1] / "tests" / "workload" / "zoo_counts.json"


def measure(name: str) -> Record:
    """What one program is, and the seconds and megabytes that its process needs for it."""
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
    """One line a family: who wrote the code, under which licence, which split it is in."""
    members: dict[str, list[Listing]] = {}
    for listing in catalogue().values():
        members.setdefault(listing.family, []).append(listing)
    rows = [
        [
            family,
            each[0].group,
            each[0].kind,
            group_split(each[0].group),
            *sources(each),
            ", ".join(x.name for x in each),
        ]
        for family, each in sorted(members.items(), key=lambda item: item[0].lower())
    ]
    return markdown(["family", "group", "kind", "split", "code", "licence", "programs"], rows)


def sources(members: list[Listing]) -> tuple[str, str]:
    """Whose code a family comes from, and under which licences."""
    codes, licences = (dict.fromkeys(getattr(each, field) for each in members) for field in ("code", "licence"))
    return "; ".join(codes), ", ".join(licences)


def table(records: list[Record]) -> str:
    """One line a program, by family."""
    counts = json.loads(COUNTS.read_text("utf-8"))
    listings = catalogue()
    headers = ["program", "family", "parameters", "MACs", "of the count", "ops", "fused", "weights", "most alive"]
    rows = []
    for record in sorted(records, key=lambda r: (listings[r["name"]].family.lower(), r["name"].lower())):
        known = counts.get(record["name"], {})
        of = next((key for key in ("macs", "flops") if known.get(key)), None)
        agrees = f"{record[of] / known[of]:.4f}" if of else "–"
        rows.append(
            [
                record["name"],
                listings[record["name"]].family,
                count(known["parameters"]) if known.get("parameters") else "–",
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
    return markdown([*headers, "file kB", "load s", "MiB"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        records = [*track(pool.map(measure, catalogue()), "loading", len(catalogue()))]
    print(json.dumps(records, indent=1))
    if options.write:
        write_between_markers(options.write, "families", families())
        write_between_markers(options.write, "programs", table(records))


if __name__ == "__main__":
    main()
