"""A part of the campaign: its runs, and what a page shows of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.ledger import Record
from benchmarks.tables import DataFile

DOCS = Path(__file__).parents[2] / "docs"


class Shown(NamedTuple):
    """Tables, data files and pictures of a part, for its documents.

    Attributes:
        tables: Markdown by the name of its markers.
        data: tables that are too long for a page, by their file names.
        pictures: PNG files by their names in docs/pictures.
    """

    tables: Mapping[str, str]
    data: Mapping[str, DataFile]
    pictures: Mapping[str, bytes]


class Part(NamedTuple):
    """A part of the campaign.

    Attributes:
        runs: returns the settings of the runs with so many seeds, in the order in which they are measured. It gets the
            records so far, as some runs have as much time as others took.
        show: returns what the records give.
        documents: names of the pages that show it.
    """

    runs: Callable[[int, Sequence[Record]], list[Record]]
    show: Callable[[Sequence[Record]], Shown]
    documents: Sequence[str]
