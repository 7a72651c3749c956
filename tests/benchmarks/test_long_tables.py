"""Tables that are too long for a page: at most ten rows there, all of them in data files, both as recorded.

Hostile files are left out here: names of their kinds come with libraries that take a dozen seconds to import.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import execution, suite
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import MOST_ROWS, DataFile
from tests.fuzz import plan_mutants, tables

DOCS = Path(__file__).parents[2] / "docs"


def records_of(name: str) -> list[Record]:
    """Return the records in a file of results."""
    return [json.loads(line) for line in (tables.RESULTS / f"{name}.jsonl").read_text("utf-8").splitlines()]


def long_tables() -> dict[str, tuple[str, str, str, DataFile]]:
    """Return document, markers, Markdown and data file by the data file's name."""
    ids = Ledger(suite.RESULTS, suite.FIELDS).of(suite.candidates())
    agents, mutants, memory = map(records_of, ("execution", "mutants", "fuzz-memory"))
    return {
        "ids.csv": ("programs", "ids", suite.table(ids), suite.ids_file(ids)),
        "left-out.csv": ("programs", "left out", suite.left_out(ids), suite.left_out_file(ids)),
        "execution-agents.csv": (
            *("execution", "execution-agents"), execution.table(agents), execution.agents_file(agents),
        ),
        "plan-mutants.csv": (
            *("execution", "mutants"), plan_mutants.table(mutants), plan_mutants.subjects_file(mutants),
        ),
        "reliability-memory.csv": ("reliability", "memory", tables.memory(memory), tables.memory_file(memory)),
    }  # fmt: skip


@pytest.fixture(scope="module", name="made")
def _made() -> dict[str, tuple[str, str, str, DataFile]]:
    return long_tables()


@pytest.mark.parametrize(
    "name", ["ids.csv", "left-out.csv", "execution-agents.csv", "plan-mutants.csv", "reliability-memory.csv"]
)
def test_pages_and_data_files_are_as_recorded(name: str, made: dict[str, tuple[str, str, str, DataFile]]) -> None:
    document, markers, text, data = made[name]
    page = (DOCS / f"{document}.md").read_text("utf-8")
    shown = page.split(f"<!-- {markers}:begin -->")[1].split(f"<!-- {markers}:end -->")[0]
    assert shown.strip().endswith(text)
    assert len(text.splitlines()) - 2 <= MOST_ROWS
    assert f"(data/{name})" in page
    assert (DOCS / "data" / name).read_text("utf-8") == data.csv()
    assert {len(row) for row in data.rows} == {len(data.heads)}
