"""Print the tables of docs/reliability.md from the records of the campaigns.

`python -m tests.fuzz.tables` prints them, `--write docs/reliability.md` puts them there.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import MOST_ROWS
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from tests.fuzz.campaign import FAILURES
from tests.fuzz.interrupts import signals_of
from tests.fuzz.worker import kind_module

Record = dict[str, Any]

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
_SHOWN = {
    "traceback": "tracebacks",
    "unreadable": "unreadable messages",
    "wrong": "wrong ones accepted",
    "crash": "crashes",
    "hang": "over 10 s",
    "memory": "over 2 GiB",
}
assert tuple(_SHOWN) == FAILURES
_FUZZ = ("input", "cases", "accepted", "refused", *_SHOWN.values(), "slowest s", "highest peak MiB")
_MEMORY = ("use", "steps", "MiB after a tenth", "MiB in the end", "flat")


def table(records: Sequence[Record], most: int | None = None) -> str:
    """Return the table of hostile input: a row for each kind, or those with `most` cases, and one for all of them."""
    kinds = fuzz_file(records).rows
    shown = sorted(kinds, key=lambda row: -int(str(row[1])))[:most]
    rows = [row for row in kinds if row in shown]
    texts = [[row[0], *(f"{count:,}" for count in row[1:-2]), f"{row[-2]:.1f} s", f"{row[-1]:,} MiB"]
             for row in [*rows, _counts("all", records)]]  # fmt: skip
    return markdown_table([*_FUZZ[:-2], "slowest", "highest peak"], texts)


def fuzz_file(records: Sequence[Record]) -> DataFile:
    """Return the table of hostile input with a row for each kind."""
    kinds = dict.fromkeys(record["kind"] for record in records)
    named = [(kind_module(kind).NAME, [record for record in records if record["kind"] == kind]) for kind in kinds]
    return DataFile(_FUZZ, [_counts(name, own) for name, own in named])


def _counts(name: str, records: Sequence[Record]) -> list[Any]:
    counts = [sum(record[field] for record in records) for field in ("accepted", "refused", *FAILURES)]
    return [
        name,
        sum(counts),
        *counts,
        *(max(record[field] for record in records) for field in ("slowest_s", "peak_mib")),
    ]


def kills(records: Sequence[Record]) -> str:
    """Return the table of training that is disturbed and resumed, by agent and way."""
    rows = [
        [
            *(agent, way, len(moments), sum(len(moment["happened"]) for moment in moments)),
            *(sum(map(_after_a_checkpoint, moments)), sum(moment["same"] for moment in moments)),
        ]
        for (agent, way), moments in _grouped(records, lambda one: (one["agent"], one["happened"][0]["way"]))
    ]
    headers = ["agent", "first", "runs", "disturbances", "runs ended after a checkpoint", "bit-equal in the end"]
    return _table(headers, rows)


def _after_a_checkpoint(moment: Record) -> bool:
    """Return True if the run continued from a checkpoint: it had been ended after at least one round."""
    return any(rounds and code for rounds, code in zip(moment.get("rounds", ()), moment.get("codes", ()), strict=False))


def interrupts(records: Sequence[Record]) -> str:
    """Return the table of commands that are interrupted or killed, by command and signal.

    A run of the leaderboard is interrupted several times, and counts each time.
    """
    moments = [
        {"command": one["command"], "signal": signal, "agent": one.get("agent", "random"), "wrong": one["wrong"]}
        for one in records
        for signal, _ in signals_of(one)
    ]
    rows = [
        [*key, len(group), len({one["agent"] for one in group}), sum(bool(one["wrong"]) for one in group)]
        for key, group in _grouped(moments, lambda one: (one["command"], one["signal"]))
    ]
    return _table(["command", "signal", "moments", "agents", "wrong"], rows)


def memory(records: Sequence[Record]) -> str:
    """Return the table of memory over many steps, of the uses that grow most."""
    rows = sorted(memory_file(records).rows, key=lambda row: row[2] - row[3])[:MOST_ROWS]
    return _table(_MEMORY, [[use, f"{steps:,}", *rest] for use, steps, *rest in rows])


def memory_file(records: Sequence[Record]) -> DataFile:
    """Return the table of memory over many steps with a row for each use."""
    fields = ("kind", "steps", "warm_mib", "end_mib")
    return DataFile(_MEMORY, [[*map(one.get, fields), "yes" if one["flat"] else "NO"] for one in records])


def load(records: Sequence[Record]) -> str:
    """Return the table of unusual ways of playing, compared with plain play."""
    rows = [
        [kind, len(rounds), sum(one["equal"] for one in rounds)]
        for kind, rounds in _grouped(records, lambda one: one["kind"])
    ]
    return _table(["way", "rounds", "bit-equal to plain play"], rows)


TABLES: dict[str, tuple[Callable[[Sequence[Record]], str], tuple[str, ...]]] = {
    "fuzz": (partial(table, most=MOST_ROWS - 1), ("fuzz",)),
    "kills": (kills, ("fuzz-kills-egrl", "fuzz-kills-muzero")),
    "interrupts": (interrupts, ("fuzz-interrupts-solve", "fuzz-interrupts-leaderboard")),
    "memory": (memory, ("fuzz-memory",)),
    "load": (load, ("fuzz-load",)),
}
"""Function that makes a table and its files in `RESULTS`, by the name of the document's markers."""


FILES: dict[str, Callable[[Sequence[Record]], DataFile]] = {"fuzz": fuzz_file, "memory": memory_file}
"""Function that makes the data file of a table, by the name of its markers."""


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return markdown_table(headers, [[str(cell) for cell in row] for row in rows])


def _grouped(records: Iterable[Record], key: Callable[[Record], Any]) -> list[tuple[Any, list[Record]]]:
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return sorted(groups.items())


def main() -> None:
    """Print the tables, and put them into documents."""
    documents = benchmark_parser(__doc__).parse_args().write
    tables, data = {}, {}
    for name, (make, files) in TABLES.items():
        lines = [line for file in files for line in (RESULTS / f"{file}.jsonl").read_text("utf-8").splitlines()]
        records = [json.loads(line) for line in lines]
        tables[name] = make(records)
        if name in FILES:
            data[f"reliability-{name}.csv"] = FILES[name](records)
    publish(tables, documents, data)


if __name__ == "__main__":
    main()
