"""The campaign of interrupts notices each fault that it is for: commands that misbehave are tried in its own forks."""

import json
import os
import signal
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from memplace_env._lib.errors import LeaderboardError
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_leaderboard import verifying
from memplace_leaderboard.entry import Entry, Point
from memplace_leaderboard.folder import META, RUNS
from tests.fuzz import UNHEEDED, interrupts
from tests.fuzz.interrupts import Ended

INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
INTERRUPTED = Ended(130, "memplace: interrupted.\n")
KEPT = Ended(130, "memplace: interrupted; the best plan so far is in out.\n")


class Noisy:
    """An object whose end Python reports and forgets."""

    def __del__(self):
        raise KeyError("lost")


def signalled(number):
    os.kill(os.getpid(), number)
    time.sleep(60)


def unguarded():
    signal.signal(TERM, signal.SIG_DFL)
    signalled(TERM)


def raising():
    raise KeyError("a name")


def noisy():
    sys.unraisablehook = sys.__unraisablehook__
    Noisy()
    raise SystemExit(130)


def exiting(code):
    raise SystemExit(code)


@pytest.mark.parametrize(
    ("main", "number", "fault"),
    [
        (lambda: signalled(INT), INT, ""),
        (lambda: signalled(TERM), TERM, ""),
        (lambda: signalled(KILL), KILL, ""),
        (lambda: exiting(0), TERM, ""),
        (unguarded, TERM, "exit code -15"),
        (lambda: signalled(KILL), INT, "exit code -9"),
        (lambda: exiting(2), INT, "exit code 2"),
        (lambda: exiting(130), KILL, "exit code 130"),
        (raising, INT, "traceback: Traceback"),
        (noisy, INT, "traceback: Exception ignored"),
        (lambda: os.write(2, b"Exception ignored in: <stdout>\n"), INT, "traceback: Exception ignored"),
        (lambda: time.sleep(60), INT, "hangs"),
    ],
)
def test_every_wrong_end_is_seen(main, number, fault, tmp_path, monkeypatch):
    monkeypatch.setattr(interrupts.memplace, "main", main)
    ended = interrupts.run([], tmp_path / "cut", limit_s=0.3 if fault == "hangs" else 60)
    assert interrupts.wrong_end(ended, number)[: len(fault) or None] == fault


def test_the_signal_is_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(interrupts.memplace, "main", lambda: time.sleep(60))
    assert interrupts.run([], tmp_path / "cut", 0.01, TERM).code == 130


PLAN = native_plan(resolve_task(interrupts.MODEL)).to_json()
WHOLE = {"plan.json": PLAN, "plan.png": "a picture IEND....", "trace.json": "{}"}


@pytest.mark.parametrize(
    ("ended", "number", "files", "fault"),
    [
        (INTERRUPTED, INT, {}, ""),
        (KEPT, INT, WHOLE, ""),
        (Ended(0, ""), INT, WHOLE, ""),
        (Ended(-9, ""), KILL, {".plan.json.new": "{"}, ""),
        (Ended(-15, ""), TERM, WHOLE, "exit code -15"),
        (KEPT, INT, WHOLE | {"plan.json": PLAN[:-40]}, "half a file"),
        (Ended(-9, ""), KILL, WHOLE | {"plan.json": PLAN[:-40]}, "half a file"),
        (KEPT, INT, WHOLE | {"trace.json": '{"traceEvents": ['}, "half a file"),
        (KEPT, INT, WHOLE | {"plan.png": "a pict"}, "half a picture"),
        (KEPT, INT, WHOLE | {".plan.png.new": "a p"}, "left behind"),
        (INTERRUPTED, INT, {"plan.json": PLAN}, "left behind"),
        (INTERRUPTED, INT, WHOLE, "said 'memplace: interrupted"),
        (KEPT, INT, {}, "said 'memplace: interrupted"),
        (Ended(0, ""), TERM, {}, "said ''"),
        (INTERRUPTED, INT, None, "left behind"),
    ],
)
def test_every_wrong_file_is_seen(ended, number, files, fault, tmp_path):
    for name, text in (files or {}).items():
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / "out" / name).write_text(text)
    if files is None:
        (tmp_path / "out").mkdir()
    assert interrupts.wrongs_of_solve(ended, number, tmp_path)[: len(fault) or None] == fault


def test_a_plan_that_does_not_replay_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(interrupts.memplace, "main", lambda: exiting(2))
    place = tmp_path / "cut"
    assert interrupts.wrong_replay(place) == ""
    (place / "out").mkdir(parents=True)
    (place / "out" / "plan.json").write_text(PLAN)
    assert interrupts.wrong_replay(place).startswith("a plan that does not replay")
    monkeypatch.setattr(interrupts.memplace, "main", lambda: exiting(0))
    assert interrupts.wrong_replay(place) == ""


def test_searches_are_checked(tmp_path, monkeypatch):
    ends = iter([Ended(0, ""), Ended(-15, ""), KEPT, Ended(2, "memplace: The plan cannot run.\n")])
    monkeypatch.setattr(interrupts, "run", lambda *_, **__: next(ends))
    trials = [trial for _, trial in interrupts.solves(1)] * 2
    assert trials[0](np.random.default_rng(0), tmp_path)["wrong"].startswith("exit code -15")
    (tmp_path / "cut" / "out").mkdir(parents=True)
    for name, text in WHOLE.items():
        (tmp_path / "cut" / "out" / name).write_text(text)
    monkeypatch.setattr(interrupts, "_SIGNALS", (INT,) * 3)
    assert trials[1](np.random.default_rng(0), tmp_path)["wrong"].startswith("a plan that does not replay")


@pytest.mark.parametrize(
    ("ends", "result", "wrong"),
    [
        ([130, 0], "whole", ""),
        ([130] * 20 + [0], "whole", ""),
        ([130, -15], "whole", "exit code -15"),
        ([130] * 20 + [2], "whole", "it does not go on"),
        ([130, 0], "other", "another result"),
        ([130, 0], LeaderboardError("it is cut off."), "no submission in the end: it is cut off."),
    ],
)
def test_resumptions_are_checked(ends, result, wrong, tmp_path, monkeypatch):
    codes = iter([0, *ends])

    def submission(out):
        if "cut" in out.parts and isinstance(result, Exception):
            raise result
        return result if "cut" in out.parts else "whole"

    monkeypatch.setattr(interrupts, "run", lambda *_, **__: Ended(next(codes), ""))
    monkeypatch.setattr(interrupts, "submission", submission)
    monkeypatch.setattr(interrupts, "_SIGNALS", (TERM,) * 3)
    ((_, trial),) = interrupts.resumptions(1)
    line = trial(np.random.default_rng(0), tmp_path)
    assert line["wrong"][: len(wrong) or None] == wrong
    assert [code for _, code in interrupts.signals_of(line)] == ends[: min(len(ends), 20)]


@pytest.mark.parametrize("name", [META, RUNS])
def test_half_files_of_a_submission_are_seen(name, tmp_path, monkeypatch):
    assert interrupts.wrong_submission(tmp_path) == ""
    (tmp_path / name).write_bytes(b"\xfd7zXZ\0half")
    assert interrupts.wrong_submission(tmp_path).startswith("half a file")
    ends = iter([Ended(0, ""), INTERRUPTED])
    monkeypatch.setattr(interrupts, "run", lambda *_, **__: next(ends))
    monkeypatch.setattr(interrupts, "submission", lambda out: "whole")
    monkeypatch.setattr(interrupts, "_SIGNALS", (TERM,) * 3)
    (tmp_path / "cut" / "out").mkdir(parents=True)
    (tmp_path / name).rename(tmp_path / "cut" / "out" / name)
    ((_, trial),) = interrupts.resumptions(1)
    assert trial(np.random.default_rng(0), tmp_path)["wrong"].startswith("half a file")


def test_submissions_differ_by_all_but_time(tmp_path, monkeypatch):
    first = Entry("id", "10", 0, PLAN, 7, 10, 1.5, (Point(1, 0.5, 7),), 0.25)

    def seen(**changes):
        made = SimpleNamespace(meta="meta", entries=[replace(first, **changes)])
        monkeypatch.setattr(verifying, "read", lambda out: made)
        return interrupts.submission(tmp_path)

    plain = seen()
    assert plain == seen(seconds=2.5, processor_seconds=3.0, curve=(Point(1, 0.75, 7),))
    assert all(
        plain != seen(**change)
        for change in ({"latency_ps": 8}, {"evaluations": 9}, {"plan": ""}, {"seed": 1}, {"curve": (Point(2, 0.5, 7),)})
    )
    (tmp_path / ".runs.new").touch()
    assert plain != seen()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"wrong": "a traceback"}, 1),
        ({"signal": "SIGTERM", "code": 0}, 1),  # also the other nine are not heeded
    ],
)
def test_exit_code(changes, code, tmp_path, monkeypatch):
    log = tmp_path / "log.jsonl"
    lines = [
        {"command": "solve", "seed": 0, "moment": number, "signal": "SIGTERM", "code": 0, "wrong": ""}
        for number in range(UNHEEDED)
    ]
    lines[3] |= {"code": 130} | changes
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr(interrupts, "MODULES", [])
    monkeypatch.setattr("sys.argv", ["interrupts", "--moments", str(UNHEEDED), "--log", str(log)])
    with pytest.raises(SystemExit) as ended:
        interrupts.main()
    assert ended.value.code == code
