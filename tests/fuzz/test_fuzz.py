"""The campaign of hostile input: its harness finds what goes wrong, and a short run of every kind finds nothing."""

import os
import threading
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from memplace_env._lib.errors import MemPlaceError, PlanError
from memplace_env._lib.foreign import SENTENCE
from tests.fuzz import __main__, campaign
from tests.fuzz.__main__ import CHUNK, names, settings, table
from tests.fuzz.worker import outcome
from tests.offenders import every

BAD = "tests.fuzz.bad_kind"
SHORT = 60


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
    assert table([record]).count(f"| {SHORT} | {record['accepted']} |") == 2


class Noisy:
    def __del__(self):
        raise KeyError("in a finaliser")


def in_a_thread():
    thread = threading.Thread(target={}.__getitem__, args=["in a thread"])
    thread.start()
    thread.join()


def raising(error):
    raise error


def saying(message):
    raise type("RawError", (MemPlaceError,), {"__str__": lambda error: message})


@every(
    ("act", "expected"),
    [
        (lambda: None, "accepted"),
        (lambda: raising(PlanError("it is refused.")), "refused"),
        (in_a_thread, "traceback"),
        (Noisy, "traceback"),
        (lambda: os.stat("/nowhere"), "traceback"),
        (lambda: [].index(3), "traceback"),  # MemPlaceError is a ValueError too
        (lambda: raising(SystemExit(0)), "traceback"),
        (lambda: raising(KeyboardInterrupt), "traceback"),
        (lambda: raising(MemoryError), "memory"),
        (lambda: np.ones(2**52), "memory"),
        (lambda: saying("x" * (SENTENCE + 100)), "refused"),
        (lambda: saying("x" * (SENTENCE + 101)), "unreadable"),
        (lambda: saying(""), "unreadable"),
        (lambda: saying("two\nlines"), "unreadable"),
        (lambda: saying("\x1b[31mred"), "unreadable"),
    ],
)
def test_the_worker_sees_what_a_case_raises(act, expected, tmp_path):
    module = SimpleNamespace(NAME="x", case=lambda *_: act() is not True)
    assert outcome(module, None, 0, 0, tmp_path)[0] == expected


@pytest.mark.parametrize("failures", [[], [{"case": 3, "outcome": "wrong"}]])
def test_failures_are_in_table_and_exit_code(failures, tmp_path, monkeypatch, capsys):
    def run_chunk(setting):
        counts = dict.fromkeys(("accepted", "refused", *campaign.FAILURES), 0) | {"wrong": 7777 * len(failures)}
        return {**setting, **counts, "slowest_s": 0.0, "peak_mib": 1, "failures": failures}

    monkeypatch.setattr(__main__, "run_chunk", run_chunk)
    ledger = str(tmp_path / "ledger")
    monkeypatch.setattr("sys.argv", ["fuzz", "--kind", "plans", "--share", "0.001", "--ledger", ledger])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == len(failures)
    assert ("7,777" in capsys.readouterr().out) == bool(failures)
