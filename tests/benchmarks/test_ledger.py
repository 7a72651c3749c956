"""The ledger writes each measurement once, and continues after an interrupt."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.ledger import PROVENANCE, Ledger, Record


def double(setting: Record) -> Record:
    return {**setting, "double": 2 * setting["number"]}


def kept(path: Path, *fields: str) -> list[Record]:
    return [{field: json.loads(line)[field] for field in fields} for line in path.read_text().splitlines()]


def test_a_record_says_where_it_comes_from(tmp_path: Path) -> None:
    Ledger(tmp_path / "runs.jsonl", ["number"]).add({"number": 1})
    (record,) = kept(tmp_path / "runs.jsonl", *PROVENANCE)
    assert all(record.values())
    with pytest.raises(AssertionError, match="the record's own"):
        Ledger(tmp_path / "runs.jsonl", ["number", "cpu"])


def test_a_recorded_setting_is_not_measured_again(tmp_path: Path) -> None:
    path, settings = tmp_path / "runs.jsonl", [{"number": number} for number in range(5)]
    with ThreadPoolExecutor(1) as pool:
        first = Ledger(path, ["number", "dims"]).complete(settings[3:], double, pool)
        assert [record["double"] for record in first] == [6, 8]
        measured: list[int] = []

        def noted(setting: Record) -> Record:
            measured.append(setting["number"])
            return double(setting)

        others = [*settings, {"number": 1, "dims": {"sequence": 2}}]
        records = Ledger(path, ["number", "dims"]).complete(others, noted, pool)
    assert sorted(measured) == [0, 1, 1, 2]
    assert [record["double"] for record in records] == [0, 2, 4, 6, 8, 2]
    assert Ledger(path, ["number", "dims"]).of(others) == records
    assert len(path.read_text().splitlines()) == 6


def test_a_log_that_one_process_adds_to(tmp_path: Path) -> None:
    path, settings = tmp_path / "runs.jsonl", [{"number": number} for number in range(3)]
    ledger = Ledger(path, ["number"])
    assert ledger.missing(settings) == settings
    ledger.add({"number": 1, "double": None})
    assert Ledger(path, ["number"]).missing(settings) == [settings[0], settings[2]]
    assert ledger.missing(settings, lambda record: record["double"] is not None) == settings
    ledger.add({"number": 1, "double": 2})
    assert [record["double"] for record in Ledger(path, ["number"]).of(settings)] == [2]


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    path, settings = tmp_path / "runs.jsonl", [{"number": number} for number in range(50)]

    def fails(setting: Record) -> Record:
        if setting["number"] == 0:
            return double(setting)
        while not path.exists():
            time.sleep(0.001)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        Ledger(path, ["number"]).complete(settings, fails, pool)
    assert kept(path, "number", "double") == [{"number": 0, "double": 0}]
