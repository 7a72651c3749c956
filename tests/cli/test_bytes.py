"""`memplace solve --minimize memory` and `memplace size`: the smallest fast memory, and what others are worth."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_agents import memory_sizes
from memplace_agents.memory_sizes import SizedLatency, knee, loss_by_halving
from tests.cli.conftest import MODEL, Run


def test_a_plan_that_does_not_fit_is_for_a_chip_in_a_file(run: Run) -> None:
    model = ("MobileNetV2", "-a", "ethos-u65", "--batch", "1")
    result = run("solve", *model, "--minimize", "memory", "--out", "here")
    assert result.exit_code == 0, result.stderr
    assert "all inner results fit in 1.44 MiB of SRAM" in result.stdout
    assert run("validate", "here/plan.json", "-a", "here/chip.toml").exit_code == 0
    assert Path("here/plan.png").read_bytes().startswith(b"\x89PNG")
    small = Path("here/chip.toml").read_text("utf-8").replace("1508448", "1500000")
    Path("small.toml").write_text(small, "utf-8")
    assert run("validate", "here/plan.json", "-a", "small.toml").exit_code == 1
    assert run("solve", *model, "--minimize", "memory", "--out", "here").exit_code == 0  # the same again
    assert run("solve", MODEL, "--minimize", "memory", "--out", "here").exit_code == 2


def test_a_plan_that_fits_is_for_the_chip(parsed: Callable[..., Any], run: Run) -> None:
    found = parsed("solve", "MobileNetV2", "--minimize", "memory")
    assert found["fits"]
    assert found["proven"]
    assert found["size"] == found["bound"] == found["live"] <= min(found["by_size"], found["first_fit"])
    assert [Path(path).name for path in found["files"]] == ["plan.json", "plan.png"]
    assert run("validate", found["files"][0]).exit_code == 0


@pytest.mark.parametrize("flag", [("--agent", "exact"), ("--order", "free"), ("--formulation", "game")])
def test_what_is_for_latency_is_refused(run: Run, flag: tuple[str, str]) -> None:
    result = run("solve", "SqueezeNet", "--minimize", "memory", *flag)
    assert result.exit_code == 2
    assert flag[0] in result.stderr


def test_sizes_up_to_one_that_holds_all(parsed: Callable[..., Any], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_sizes, "WORK", 0.5)
    shown = parsed("size", MODEL)
    rows = shown["rows"]
    assert memory_sizes.SIZES - 2 <= len(rows) <= memory_sizes.SIZES + 1
    assert [row["size"] for row in rows] == sorted(row["size"] for row in rows)
    latencies = [row["latency_s"] for row in rows]
    assert latencies == sorted(latencies, reverse=True)
    assert all(row["bound_s"] <= row["latency_s"] * 1.0001 for row in rows)
    assert min(row["size"] for row in rows if row["latency_s"] <= 1.01 * latencies[-1]) == shown["knee_bytes"]
    assert Path(shown["picture"]).read_bytes().startswith(b"\x89PNG")
    knee_line, written = run("size", MODEL).stdout.splitlines()[-2:]
    assert (knee_line[:14], written[:9]) == ("The knee is at", "Written: ")


def test_the_knee_is_the_smallest_size_that_loses_one_percent() -> None:
    rows = [SizedLatency(2**power, latency, 0.0) for power, latency in enumerate((4.04, 2.02, 1.01, 1.0, 1.0))]
    assert knee(rows) == 2
    assert loss_by_halving(rows) == pytest.approx(1.0)
    assert loss_by_halving(rows[2:]) == 0
    assert json.loads(json.dumps(rows[0]._asdict()))["size"] == 1
