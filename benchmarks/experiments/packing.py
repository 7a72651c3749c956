"""Addresses alone: MiniMalloc's eleven public instances, and up to a million drawn blocks.

Each instance of `benchmarks/data/minimalloc.zip` is packed into its 1,048,576 bytes as it was published, with time
reversed, and `ORDERS` times each with its blocks in another order; then into the smallest arena. Drawn blocks begin at
any of as many units of time as there are blocks, and have lives of 1 to `LIFE` units and 64 to `BYTES` bytes, both
log-uniform. Seconds are processor seconds of one core. Those of MiniMalloc (commit 9f5cf810, built with -O2 and without
its log) were measured once, on cores of the same kind, and are not measured by this command.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable
from statistics import mean
from typing import Final
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import ROOT, Experiment, Records, Row, field, table
from benchmarks.ledger import Record
from memplace_env import Packed, pack

CAPACITY: Final = 2**20
ORDERS: Final = 10
SECONDS: Final = 5.0
"""Seconds within which a packing counts as found in time."""
MINIMALLOC_S: Final = {
    "A": 5.05, "B": 3.55, "C": 0.66, "D": 3.39, "E": 3.54, "F": 5.68, "G": 1.20, "H": 1.79, "I": 4.10, "J": 1.32,
    "K": 0.56,
}  # fmt: skip
COUNTS: Final = (1_000, 10_000, 100_000, 1_000_000)
LIFE: Final = 64
BYTES: Final = 2**18

Blocks = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Bytes, and the first and last unit of time, of each block."""


def instance(name: str) -> Blocks:
    """Return the blocks of one of MiniMalloc's instances."""
    with ZipFile(ROOT / "benchmarks" / "data" / "minimalloc.zip") as archive:
        rows = list(csv.DictReader(io.StringIO(archive.read(f"{name}.csv").decode())))
    size, first, end = (np.array([int(row[head]) for row in rows]) for head in ("size", "lower", "upper"))
    return size, first, end - 1


def drawn(count: int) -> Blocks:
    """Return drawn blocks, the same for each count."""
    random = np.random.default_rng(count)
    first = random.integers(0, count, count)
    size = 64 * (2 ** random.uniform(0, np.log2(BYTES / 64), count)).astype(np.int64)
    return size, first, first + (2 ** random.uniform(0, np.log2(LIFE), count)).astype(np.int64) - 1


def settings(records: Records = ()) -> list[Record]:
    """Return the instances, and the numbers of drawn blocks."""
    return [{"of": "minimalloc", "name": name} for name in MINIMALLOC_S] + [
        {"of": "drawn", "name": str(count)} for count in COUNTS
    ]


def timed(blocks: Blocks, capacity: int | None) -> tuple[Packed, float]:
    """Return where blocks lie, and the seconds that it took."""
    began = time.process_time()
    packed = pack(*blocks, capacity=capacity)
    return packed, time.process_time() - began


def measure(run: Record) -> Record:
    """Return a run's setting with seconds, and what was found."""
    timed(instance("C"), CAPACITY)  # loads what is compiled
    if run["of"] == "drawn":
        blocks = drawn(int(run["name"]))
        found, seconds = timed(blocks, None)
        return {**run, "blocks": len(blocks[0]), **_arena(found, seconds)}
    blocks = instance(run["name"])
    count, end = len(blocks[0]), blocks[2].max()
    record = {**run, "blocks": count, **_arena(*timed(blocks, None))}
    for name, (size, first, last) in (
        ("published", blocks),
        ("reversed", (blocks[0], end - blocks[2], end - blocks[1])),
    ):
        orders = [np.arange(count), *(np.random.default_rng(seed).permutation(count) for seed in range(ORDERS))]
        results = [timed((size[order], first[order], last[order]), CAPACITY) for order in orders]
        record[name] = [round(seconds, 3) if packed.outcome == "found" else None for packed, seconds in results]
    return record


def _arena(packed: Packed, seconds: float) -> Record:
    return {"arena": packed.arena, "bound": packed.bound, "seconds": round(seconds, 3)}


def instances(records: Records) -> list[Row]:
    """Return the instances, and all of them for their sum."""
    mine = [record for record in records if record["of"] == "minimalloc"]
    return [*mine, mine]


def of_rows(cell: Callable[[list[Record]], str]) -> Callable[[Row], str]:
    """Return a cell of one instance, or of all."""
    return lambda row: cell(row if isinstance(row, list) else [row])


def alone(cell: Callable[[Record], str], of_all: str = "") -> Callable[[Row], str]:
    """Return a cell that says `of_all` in the row of all instances."""
    return lambda row: of_all if isinstance(row, list) else cell(row)


def published_seconds(records: list[Record]) -> str:
    """Return a cell: seconds for the instance as it is published."""
    seconds = [record["published"][0] for record in records]
    return "not found" if None in seconds else f"{sum(seconds):.2f}"


def other_orders(name: str) -> Callable[[Row], str]:
    """Return a cell: of the other orders how many were packed in time, and the mean of their seconds."""

    def cell(records: list[Record]) -> str:
        every = [seconds for record in records for seconds in record[name][1:]]
        found = [seconds for seconds in every if seconds is not None and seconds <= SECONDS]
        return f"{len(found)} of {len(every)}, {mean(found):.2f} s" if found else f"0 of {len(every)}"

    return of_rows(cell)


def above(record: Record) -> str:
    """Return a cell: how far the arena is above the bound."""
    return "proven" if record["arena"] == record["bound"] else f"{record['arena'] / record['bound'] - 1:.2%}"


EXPERIMENTS = [
    Experiment(
        "packing",
        __doc__,
        {
            "docs/toolchains.md#minimalloc": table(
                {
                    "instance": alone(field("name"), "all"),
                    "blocks": of_rows(lambda records: str(sum(record["blocks"] for record in records))),
                    "MiniMalloc s": of_rows(lambda records: f"{sum(MINIMALLOC_S[r['name']] for r in records):.2f}"),
                    "s": of_rows(published_seconds),
                    "other orders": other_orders("published"),
                    "reversed, other orders": other_orders("reversed"),
                    "above the bound": alone(above),
                },
                instances,
            ),
            "docs/toolchains.md#drawn blocks": table(
                {
                    "blocks": field("blocks", ","),
                    "s": field("seconds", ".2f"),
                    "arena": field("arena", ","),
                    "above the bound": above,
                },
                lambda records: [record for record in records if record["of"] == "drawn"],
            ),
        },
        settings,
        measure,
        key=("of", "name"),
    )
]
