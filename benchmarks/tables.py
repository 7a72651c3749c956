"""Flags and tables of scripts that are no experiments: proofs, the leaderboard, fuzzing."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from memplace_env._lib.files import write_atomically
from memplace_env.report.tables import markdown_table

__all__ = ["DataFile", "benchmark_parser", "markdown_table", "publish"]


def benchmark_parser(description: str | None, writes: bool = True) -> argparse.ArgumentParser:
    """Return a parser whose help is the module's docstring, with the flag `--write` if the script `writes` tables."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if writes:
        parser.add_argument(
            "--write", type=Path, nargs="+", default=[], metavar="FILE", help="documents whose tables are replaced"
        )
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


def publish(tables: Mapping[str, str], documents: Sequence[Path], data: Mapping[str, DataFile] | None = None) -> None:
    """Print tables, and put them into documents, each between `<!-- name:begin -->` and `<!-- name:end -->`.

    Args:
        tables: Markdown by the name of its markers.
        documents: files that have the markers of one of the tables or more.
        data: files by their names in `data/` beside each document.

    Raises:
        SystemExit: a document has no markers of any of the tables.
    """
    for content in tables.values():
        print(content, end="\n\n")
    for document in documents:
        text = document.read_text(encoding="utf-8")
        written = 0
        for name, content in tables.items():
            begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
            if begin in text and end in text:
                text = f"{text.split(begin)[0]}{begin}\n{content}\n{end}{text.split(end)[1]}"
                written += 1
        if not written:
            raise SystemExit(f"{document} has no markers of {', '.join(tables)}.")
        write_atomically(document, text)
        for name, table in (data or {}).items():
            (document.parent / "data").mkdir(exist_ok=True)
            write_atomically(document.parent / "data" / name, table.csv())
