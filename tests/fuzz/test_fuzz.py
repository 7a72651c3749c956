"""The campaign of hostile input: its harness finds what goes wrong, and a short run of every kind finds nothing."""

from importlib.util import find_spec
from itertools import pairwise

import pytest

from tests.fuzz import campaign, interrupts
from tests.fuzz.__main__ import CHUNK, names, settings
from tests.fuzz.tables import table

BAD = "tests.fuzz.bad_kind"
SHORT = 30


def bad(first, stop):
    return campaign.run_chunk({"kind": BAD, "seed": 0, "first": first, "stop": stop})


def test_the_harness_sees_all_that_can_go_wrong(monkeypatch):
    monkeypatch.setattr(campaign, "PEAK_MIB", 400)
    record = bad(0, 7)
    once = ("accepted", "traceback", "unreadable", "wrong", "memory")
    assert all(record[name] == 1 for name in once)
    assert (record["refused"], record["crash"], record["hang"]) == (2, 0, 0)
    assert [failure["case"] for failure in record["failures"]] == [3, 4, 5, 6]
    assert "KeyError" in record["failures"][0]["detail"]
    assert record["peak_mib"] > 512
    record = bad(10, 12)
    assert (record["memory"], record["accepted"]) == (1, 1)  # of a child, and only of the case that started it

    monkeypatch.setattr(campaign, "HANG_S", 0.5)
    record = bad(7, 8)
    assert record["hang"] == 1
    assert record["failures"][0]["outcome"] == "hang"


def test_a_crash_costs_one_case():
    record = bad(8, 10)
    assert (record["crash"], record["accepted"]) == (1, 1)
    assert "-6" in record["failures"][0]["detail"]


def test_the_same_seed_makes_the_same_case():
    again = [bad(3, 4)["failures"][0]["detail"].split("by ")[-1] for _ in range(2)]
    assert again[0] == again[1]


def test_chunks_cover_all_cases_once():
    for kind in names():
        chunks = settings(kind, 0, 1.0)
        assert chunks[0]["first"] == 0
        assert all(a["stop"] == b["first"] for a, b in pairwise(chunks))
        assert all(0 < chunk["stop"] - chunk["first"] <= CHUNK for chunk in chunks)


@pytest.mark.slow
@pytest.mark.parametrize("kind", names())
def test_a_short_run_finds_nothing(kind, monkeypatch):
    monkeypatch.setattr(campaign, "HANG_S", 120.0)  # as kernels may have to be compiled
    record = campaign.run_chunk({"kind": kind, "seed": 1, "first": 0, "stop": SHORT})
    assert record["failures"] == []
    assert record["refused"] > 0
    assert table([record]).count(f"| {SHORT:,} |") == 2


def test_the_modules_that_interrupts_import_exist():
    """The campaign of interrupts is too long for tests; its list of modules goes stale unseen."""
    assert [name for name in interrupts.MODULES if find_spec(name) is None] == []
