"""Orders of ops on the command line: solved, replayed, shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_env.program.reordering import memory_order
from tests.cli.conftest import Run
from tests.program.test_reordering import late_readers

MODEL = "late.program"


@pytest.fixture
def program(run: Run) -> None:
    """`late_readers` as a file in the folder that `run` works in."""
    late_readers(6).save(MODEL)


def test_solved_and_replayed(run: Run, parsed: Callable[..., Any], program: None) -> None:
    solved = run("solve", MODEL, "--agent", "native", "--order", "memory", "--bound", "0", "--out", "out")
    assert solved.exit_code == 0, solved.stderr
    plan = Path("out/plan.json")
    assert json.loads(plan.read_text())["settings"]["order"] == memory_order(late_readers(6)).tolist()
    assert parsed("validate", MODEL, plan)["valid"]
    assert "ops in an order of their own" in run("explain", MODEL, plan).stdout
    again = run("solve", MODEL, "--agent", "native", "--bound", "0", "--out", "out")
    assert again.exit_code == 2
    assert "another task, late on nnp-i with an order of its own" in again.stderr


def test_peaks(parsed: Callable[..., Any], program: None) -> None:
    shown = parsed("inspect", MODEL)
    assert shown["peak_live_bytes"] == 601
    assert shown["peak_live_bytes_in_memory_order"] < 300


def test_a_hostile_plan_is_one_sentence(run: Run, program: None) -> None:
    run("solve", MODEL, "--agent", "native", "--order", "memory", "--bound", "0", "--out", "out")
    document = json.loads(Path("out/plan.json").read_text())
    for order in ([0], [1] * 12, list(range(11, -1, -1)), "memory", {"a": 1}):
        document["settings"]["order"] = order
        Path("bad.json").write_text(json.dumps(document))
        refused = run("simulate", MODEL, "bad.json")
        assert refused.exit_code == 2
        assert len(refused.stderr.strip().splitlines()) == 1
