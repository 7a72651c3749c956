"""Experiments as data: what is measured, which record each measurement has, and what pages show of the records."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from benchmarks.cores import single_cores, single_processes
from benchmarks.ledger import Ledger, Record
from memplace_env._lib.files import write_atomically
from memplace_env.report.tables import markdown_table

ROOT: Final = Path(__file__).parents[1]
RECORDS: Final = ROOT / "benchmarks" / "records"
"""Folder of the archives of records."""
SHOWN: Final = (
    "AlexNet", "MobileNetV2", "ResNet50", "ResNet101", "ConvNeXt-tiny", "BERT", "GPT2", "ViT", "Swin-tiny",
    "Whisper-tiny",
)  # fmt: skip
"""Ten programs with one-shot ids on nnp-i: the rows of tables that a person reads."""
MOST_ROWS: Final = 10
"""Rows of a table on a page; what is longer goes into a data file."""

TIMES: Final = ("took_s", "cpu_s")
"""Fields of records with the seconds that a setting took."""

Records = Sequence[Record]
Row = Any
Rows = Sequence[Mapping[str, str]]
"""Rows that have their cells by head."""
Columns = Mapping[str, Callable[[Row], object]]
"""The cell of a row by the head of its column; spaces at the ends tell columns of one head apart."""
Render = Callable[[Records], str | bytes]
"""Returns text for a page, the contents of a data file, or a picture."""


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Attributes:
        name: name on the command line, and of its archive in `benchmarks/records`.
        about: what is measured and by which rules; the first line is a summary.
        pages: what is shown, by its place from the root: "docs/agents.md#dynamic" is the text between the markers
            `<!-- dynamic:begin -->` and `<!-- dynamic:end -->`, anything else is a whole file.
        settings: returns what is to be measured, given the records so far; None if nothing is.
        measure: returns a setting's record, with all of the setting's fields; must be picklable.
        key: fields that identify a record.
        ledger: name of the archive if it is another one than the experiment's.
        alone: whether each measurement has a process of its own, as for the peak of its memory.
        finished: returns False for a record that is to be measured again.
    """

    name: str
    about: str
    pages: Mapping[str, Render]
    settings: Callable[[Records], Iterable[Record]] | None = None
    measure: Callable[[Record], Record] | None = None
    key: Sequence[str] = ()
    ledger: str = ""
    alone: bool = False
    finished: Callable[[Record], bool] = lambda record: True

    def open(self) -> Ledger:
        """Return the ledger."""
        return Ledger(RECORDS / f"{self.ledger or self.name}.jsonl.xz", self.key)

    def recorded(self) -> list[Record]:
        """Return the records that are there, in the order of the settings."""
        return self.run(0)

    def left(self) -> tuple[int, float]:
        """Return how many settings have no record, and their hours if each takes the mean of those that have one.

        The hours are 0 if no record says how long it took.
        """
        ledger = self.open()
        wanted = list(self.settings(ledger.records)) if self.settings else []
        took = [float(record[name]) for record in ledger.of(wanted) for name in TIMES if name in record]
        missing = len(ledger.missing(wanted, self.finished))
        return missing, missing * sum(took) / len(took) / 3600 if took else 0.0

    def run(self, jobs: int, only: Iterable[str] = (), again: bool = False) -> list[Record]:
        """Return the records of all settings; measure what is missing.

        Args:
            jobs: processes, each on its own core; 0 to measure nothing.
            only: values of which each setting must have every one; all settings if there is none.
            again: whether to measure what has a record, too, which the new one replaces.
        """
        if self.settings is None:
            return []
        ledger, before = self.open(), -1
        if again:
            ledger.records.clear()
        while before < len(ledger.records):  # some settings follow from other records
            before = len(ledger.records)
            wanted = [run for run in self.settings(ledger.records) if set(only) <= set(map(str, run.values()))]
            if jobs and ledger.missing(wanted, self.finished):
                assert self.measure is not None
                with single_processes(jobs) if self.alone else single_cores(jobs) as pool:
                    ledger.complete(wanted, self.measure, pool, self.finished)
        ledger.pack()
        return ledger.of(wanted)

    def differences(self) -> list[str]:
        """Return how pages and data files differ from what the records give: lines of a diff."""
        records, lines = self.recorded(), list[str]()
        for place, render in self.pages.items():
            if not place.endswith(".png"):
                shown, content = read(place).splitlines(), str(render(records)).splitlines()
                lines += unified_diff(shown, content, place, self.name, lineterm="", n=0)
        return lines

    def write(self, records: Records) -> None:
        """Write pages, data files and pictures."""
        for place, render in self.pages.items():
            write(place, render(records))


def table(
    columns: Columns | Callable[[list[Row]], Columns],
    rows: Callable[[Records], Iterable[Row]] = list,
    below: Callable[[Records], str] | None = None,
) -> Render:
    """Return what makes a Markdown table.

    Args:
        columns: the columns, or what returns them, given all rows.
        rows: returns the rows.
        below: returns a paragraph below the table.
    """

    def render(records: Records) -> str:
        shown, text = _cells(columns, rows(records))
        return markdown_table(shown, text) + (f"\n\n{below(records)}" if below else "")

    return render


def data(columns: Columns | Callable[[list[Row]], Columns], rows: Callable[[Records], Iterable[Row]] = list) -> Render:
    """Return what makes a file of comma-separated values; see `table`."""

    def render(records: Records) -> str:
        heads, cells = _cells(columns, rows(records))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([heads, *cells])
        return text.getvalue()

    return render


def _cells(columns: Columns | Callable[[list[Row]], Columns], rows: Iterable[Row]) -> tuple[list[str], list[list[str]]]:
    """Return heads and cells."""
    found = list(rows)
    by_head = columns(found) if callable(columns) else columns
    return [head.strip() for head in by_head], [[str(cell(row)) for cell in by_head.values()] for row in found]


def as_rows(titles: Sequence[str], cells: Iterable[Sequence[str]]) -> Rows:
    """Return rows that have their cells by head."""
    return [dict(zip(titles, row, strict=True)) for row in cells]


def heads(rows: list[Row]) -> Columns:
    """Return the columns of rows that have their cells by head."""
    return {head: itemgetter(head) for row in rows[:1] for head in row}


def field(name: str, form: str = "", scale: float = 1.0, unit: str = "") -> Callable[[Record], str]:
    """Return a cell: a field of the record times a number, in a format, and its unit; empty if the record lacks it."""

    def cell(record: Record) -> str:
        if record.get(name) is None:
            return ""
        return format(record[name] * scale if scale != 1.0 else record[name], form) + unit

    return cell


def setting_text(record: Mapping[str, Any]) -> str:
    """Return the type, batch and dims of an environment's arguments: "int8, batch 4, sequence 128"."""
    dims = [f"{key} {value}" for key, value in record.get("dims", {}).items()]
    batch = [f"batch {record['batch']}"] if "batch" in record else []
    return ", ".join([*([record["dtype"]] if "dtype" in record else []), *batch, *dims])


def milliseconds(seconds: float, digits: int = 3) -> str:
    """Return a time in milliseconds with so many digits behind the point."""
    return f"{seconds * 1e3:.{digits}f}"


def read(place: str) -> str:
    """Return what a place has now; empty if the file, or its markers, are not there."""
    path, _, marker = place.partition("#")
    text = (ROOT / path).read_text("utf-8") if (ROOT / path).exists() else ""
    _, _, rest = text.partition(f"<!-- {marker}:begin -->\n") if marker else ("", "", text)
    return rest.partition(f"\n<!-- {marker}:end -->")[0] if marker else rest


def write(place: str, content: str | bytes) -> None:
    """Write a place.

    Raises:
        SystemExit: if the page lacks the markers.
    """
    path, _, marker = place.partition("#")
    if marker:
        text, begin, end = (ROOT / path).read_text("utf-8"), f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
        if begin not in text or end not in text:
            raise SystemExit(f"{path} has no markers {begin} and {end}; put them where the table belongs.")
        content = f"{text.split(begin)[0]}{begin}\n{content!s}\n{end}{text.split(end)[1]}"
    write_atomically(ROOT / path, content)
