"""The zoo: every program with its family, its counts, and the cost of loading it.

Each program is loaded in a process of its own, at the zoo's default dims and in the file's own types. The independent
count is PyTorch's own counter on the module that was exported, and XLA's on the function that was lowered
(tests/program/zoo_counts.json).
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator
from functools import cache

from benchmarks.harness import ROOT, SHOWN, Columns, Experiment, Records, data, field, table
from benchmarks.ledger import Record
from memplace_env.envs.splits import group_split
from memplace_env.placement.workloads import is_built, resolve_workload
from memplace_env.program.model_file import read_bytes
from memplace_env.program.program import TensorKind
from memplace_env.program.zoo import Listing, catalogue, zoo_path
from memplace_env.report.quantities import count, size

COUNTS = ROOT / "tests" / "program" / "zoo_counts.json"


def measure(run: Record) -> Record:
    """Return a program's counts, and the seconds and bytes that a process needs to load it."""
    name, start = run["name"], time.perf_counter()
    fused = resolve_workload(name)
    seconds = time.perf_counter() - start
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    plain = fused if is_built(name) else resolve_workload(name, fusion="none")
    return {
        **run,
        "ops": fused.num_ops,
        "ops_unfused": plain.num_ops,
        "macs": int(plain.macs.sum()),
        "flops": int(2 * plain.macs.sum() + plain.vector_ops.sum()),
        "weight_bytes": plain.bytes_of(TensorKind.WEIGHT),
        "peak_live_bytes": int(fused.live_bytes.max()),
        "file_bytes": len(read_bytes(zoo_path(name), ".onnx")),
        "seconds": seconds,
        "resident_bytes": resident,
    }


def families(records: Records) -> Iterator[tuple[str, list[Listing]]]:
    """Yield each family with its programs."""
    members: dict[str, list[Listing]] = {}
    for listing in catalogue().values():
        members.setdefault(listing.family, []).append(listing)
    yield from sorted(members.items(), key=lambda item: item[0].lower())


def of_all(attribute: str, between: str) -> Callable[[tuple[str, list[Listing]]], str]:
    """Return a cell: an attribute of all programs of a family, each value once."""
    return lambda family: between.join(dict.fromkeys(getattr(listing, attribute) for listing in family[1]))


@cache
def counted() -> dict[str, dict[str, int]]:
    """Return the independent counts by program."""
    return dict(json.loads(COUNTS.read_text("utf-8")))


def parameters(record: Record) -> int | str:
    """Return a cell: the count of parameters; empty if it is unknown."""
    return counted().get(record["name"], {}).get("parameters", "")


def agrees(record: Record) -> str:
    """Return a cell: our MACs, or operations, over the independent count."""
    found = counted().get(record["name"], {})
    unit = next((key for key in ("macs", "flops") if found.get(key)), None)
    return f"{record[unit] / found[unit]:.4f}" if unit else ""


def family(record: Record) -> str:
    """Return a program's family."""
    return catalogue()[record["name"]].family


SHOWN_COLUMNS: Columns = {
    "program": field("name"),
    "parameters": lambda record: count(parameters(record)),
    "MACs": lambda record: count(record["macs"]),
    "ops": field("ops_unfused"),
    "fused": field("ops"),
    "weights": lambda record: size(record["weight_bytes"]),
    "most alive": lambda record: size(record["peak_live_bytes"]),
}
COLUMNS: Columns = {
    "program": field("name"),
    "family": family,
    "parameters": parameters,
    "MACs": field("macs"),
    "of the count": agrees,
    "ops": field("ops_unfused"),
    "fused": field("ops"),
    "weight bytes": field("weight_bytes"),
    "most bytes alive": field("peak_live_bytes"),
    "file bytes": field("file_bytes"),
    "load s": field("seconds", ".2f"),
    "MiB": field("resident_bytes", ".0f", 2**-20),
}
EXPERIMENTS = [
    Experiment(
        "programs",
        __doc__,
        {
            "docs/programs.md#programs": table(
                SHOWN_COLUMNS, lambda records: [record for record in records if record["name"] in SHOWN]
            ),
            "docs/data/programs.csv": data(
                COLUMNS, lambda records: sorted(records, key=lambda r: (family(r).lower(), r["name"].lower()))
            ),
            "docs/data/families.csv": data(
                {
                    "family": lambda row: row[0],
                    "group": lambda row: row[1][0].group,
                    "kind": lambda row: row[1][0].kind,
                    "split": lambda row: group_split(row[1][0].group),
                    "code": of_all("code", "; "),
                    "licence": of_all("licence", ", "),
                    "programs": of_all("name", ", "),
                },
                families,
            ),
        },
        lambda records: [{"name": name} for name in catalogue()],
        measure,
        key=("name",),
        alone=True,
    )
]
