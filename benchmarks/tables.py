"""Flags and tables of campaigns of the tests, `tests.fuzz`, which are no experiments."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import harness
from memplace_env.report.tables import markdown_table

__all__ = ["DataFile", "benchmark_parser", "markdown_table", "publish"]


def benchmark_parser(description: str | None, writes: bool = True) -> argparse.ArgumentParser:
    """Return a parser whose help is the module's docstring, with the flag `--write` if the script `writes` tables."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if writes:
        parser.add_argument("--write", nargs="+", default=[], metavar="FILE", help="documents that get the tables")
    return parser


class DataFile(NamedTuple):
    """A table that is too long for a page: its columns' names, and its rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]

    def csv(self) -> str:
        """Return it as comma-separated values, names first."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.heads, *self.rows])
        return text.getvalue()


def publish(tables: Mapping[str, str], documents: Sequence[str], data: Mapping[str, DataFile] | None = None) -> None:
    """Print tables, and put each into the documents that have its markers, and data files beside them into `data/`."""
    for name, content in tables.items():
        print(content, end="\n\n")
        for document in documents:
            if f"<!-- {name}:begin -->" in (harness.ROOT / document).read_text("utf-8"):
                harness.write(f"{document}#{name}", content)
    for name, table in (data or {}).items() if documents else ():
        harness.write(str(Path(documents[0]).parent / "data" / name), table.csv())
