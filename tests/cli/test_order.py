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


def test_a_free_order_is_bounded_over_all_orders(run: Run, parsed: Callable[..., Any]) -> None:
    """NeRF has 27 pairs of free ops; the optimum over all orders is 2.54 % faster than in the file's."""
    arguments = ("MemPlace-NeRF-v0", "--agent", "exact", "--order", "free", "--out", "out")
    solved = parsed("solve", *arguments)
    assert solved["order"]["optimal_over_all_orders"]
    assert solved["order"]["gain"] == pytest.approx(0.0254, abs=1e-4)
    assert solved["order"]["bound_all_orders_s"] <= solved["report"]["latency_s"]
    assert solved["bound_s"] > solved["order"]["bound_all_orders_s"] * (1 - 1e-3)
    assert parsed("simulate", "out/plan.json")["report"]["latency_s"] == solved["report"]["latency_s"]
    text = " ".join(run("solve", *arguments, "--force").stdout.split())
    assert "faster than in the file's, proven optimal over all orders (bound" in text
    assert "results never in place" in text


@pytest.mark.parametrize("refused", [("--formulation", "game"), ("--simulator", "event"), ("--formulation", "dynamic")])
def test_what_has_no_free_order(run: Run, program: None, refused: tuple[str, ...]) -> None:
    solved = run("solve", MODEL, "--order", "free", *refused)
    assert solved.exit_code == 2
    assert "--order memory" in solved.stderr
    assert "order is file or memory" in run("inspect", MODEL, "--order", "free").stderr
