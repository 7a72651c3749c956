"""Plans with slices on the command line: solved, shown, merged, replayed, and strange ones refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.subjects import layers_of_rows, sliced_layers

MODEL = "layers.program"


@pytest.fixture
def plan(run: Run) -> Path:
    """`sliced_layers` as files in the folder that `run` works in."""
    layers_of_rows().save(MODEL)
    return sliced_layers().evaluated.plan.save("plan.json")


def test_solved_and_shown(run: Run, plan: Path) -> None:
    solved = run("solve", MODEL, "--agent", "density-greedy", "--slices", "0.1", "--bound", "0", "--out", "out")
    assert solved.exit_code == 0, solved.stderr
    assert "[1/" not in solved.stdout
    assert json.loads(Path("out/plan.json").read_text())["settings"]["slices"] == 0.1
    told = run("explain", MODEL, plan)
    assert "Tensors in several levels" in told.stdout
    assert "7 tensors are cut into 48 slices" in run("inspect", MODEL, "--slices", "0.1").stdout
    compared = run("compare", MODEL, plan, "out/plan.json", "--out", "both.png")
    assert compared.exit_code == 0, compared.stderr


@pytest.mark.parametrize(("slices", "piece"), [((), "tensor"), (("--slices", "0.1"), "slice")])
def test_what_is_proven(run: Run, plan: Path, slices: tuple[str, ...], piece: str) -> None:
    """A plan without slices, or with others, may be faster than the bound of a sliced task."""
    solved = run("solve", MODEL, "--agent", "exact", "--time-limit", 5, *slices)
    assert solved.exit_code == 0, solved.stderr
    assert f"no plan that keeps each {piece} in one level is faster, proven" in " ".join(solved.stdout.split())


def test_plans_in_different_slices_are_compared(run: Run, parsed: Callable[..., Any], plan: Path) -> None:
    assert run("export", MODEL, plan, "--format", "plan", "--out", "merged.json").exit_code == 0
    assert run("solve", MODEL, "--agent", "native", "--bound", "0", "--out", "out").exit_code == 0
    merged = parsed("compare", MODEL, plan, "merged.json")
    assert merged["differences"] == merged["routes"] == []
    latencies = [parsed("simulate", MODEL, path)["report"]["latency_s"] for path in (plan, "out/plan.json")]
    compared = parsed("compare", MODEL, plan, "out/plan.json", "--out", "both.png")
    assert [row["report"]["latency_s"] for row in compared["plans"]] == latencies
    assert compared["routes"]
    assert Path("both.png").exists()


def test_merged_and_replayed(run: Run, parsed: Callable[..., Any], plan: Path) -> None:
    said = parsed("export", MODEL, plan, "--format", "plan", "--out", "merged.json")
    assert (said["tensors"], said["allocations"], said["copies"]) == (12, 3, 0)
    document = json.loads(Path("merged.json").read_text())
    assert document["program_sha256"] == said["program_sha256"]
    assert document["settings"]["slices"] == {"1": [8], "2": [6], "6": [3]}
    assert parsed("validate", MODEL, "merged.json")["valid"]
    before, after = (parsed("simulate", MODEL, path)["report"] for path in (plan, "merged.json"))
    rounded = {"traffic_bound_s", "gap_to_traffic_bound"}  # the bound rounds each slice's share
    assert {key: after[key] for key in after if key not in rounded} == {
        key: before[key] for key in before if key not in rounded
    }
    assert "layer.0.result   3 MiB        2   75.0 %" in run("explain", MODEL, "merged.json").stdout
    assert run("export", MODEL, "merged.json", "--out", "plan.h").exit_code == 0


def test_only_a_header_has_a_prefix(run: Run, plan: Path) -> None:
    refused = run("export", MODEL, plan, "--format", "plan", "--out", "merged.json", "--prefix", "net")
    assert refused.exit_code == 2
    assert "--format plan" in refused.stderr
    assert not Path("merged.json").exists()


@pytest.mark.parametrize(
    "slices",
    ["0.1", True, 2.0, -0.1, [1], {"0": [1]}, {"1": [99]}, {"1": [5, 3]}, {"1": 3}, {"1": ["3"]}, {"1": {"3": 1}}],
)
def test_strange_slices_are_refused(run: Run, plan: Path, slices: object) -> None:
    document = json.loads(plan.read_text())
    document["settings"]["slices"] = slices
    Path("strange.json").write_text(json.dumps(document))
    refused = run("validate", MODEL, "strange.json")
    assert refused.exit_code == 2, refused.stdout
    assert "slices" in refused.stderr


def test_shares_are_numbers_or_auto(run: Run, plan: Path) -> None:
    assert run("inspect", MODEL, "--slices", "auto").exit_code == 0
    for wrong, sentence in (
        ("much", "--slices takes a share of the fastest memory or auto"),
        ("2", "up to 1, or 'auto'"),
    ):
        refused = run("inspect", MODEL, "--slices", wrong)
        assert refused.exit_code == 2
        assert sentence in refused.stderr.replace("\n", " ")
