"""Files that `memplace solve` overwrites, and those it keeps."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_agents.random_search import RandomSearch
from memplace_agents.search.local_search import LocalSearch
from memplace_env.cli.console import slug
from memplace_env.cli.solve_result import Result
from memplace_env.placement.memory_plan import MemoryPlan
from tests.cli.conftest import MODEL, OTHER, Run

SLOW = ("--agent", "random", "--budget", 1, "--bound", 0, "--out", "o")


@pytest.fixture(autouse=True)
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide matplotlib, like an installation without it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


@pytest.fixture
def best(run: Run, tmp_path: Path) -> Path:
    """The optimum, in the folder o."""
    assert run("solve", MODEL, "--out", "o").exit_code == 0
    return tmp_path / "o" / "plan.json"


def test_a_faster_plan_stays(run: Run, parsed: Callable[..., Any], best: Path) -> None:
    before = {path: path.read_bytes() for path in best.parent.iterdir()}
    result = run("solve", MODEL, *SLOW)
    assert result.exit_code == 0
    assert "Not written: o/plan.json is faster, " in result.stdout
    assert " against " in result.stdout
    summary = parsed("solve", MODEL, *SLOW)
    assert set(summary["files"].values()) == {None}
    assert summary["standing_s"] < summary["report"]["latency_s"]
    assert {path: path.read_bytes() for path in best.parent.iterdir()} == before


def test_simulators_have_folders_of_their_own(run: Run, tmp_path: Path) -> None:
    """Latencies of two simulators do not compare, so neither replaces the other's plan."""
    for simulator in ((), ("--simulator", "builtin"), ("--simulator", "event")):
        result = run("solve", MODEL, *SLOW[:-2], "-a", "intel-npu-4000", *simulator)
        assert result.exit_code == 0, result.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"{slug(MODEL)}-intel-npu-4000{end}-random" for end in ("-event", "")]


MOMENTS = [(RandomSearch, "run", ()), (LocalSearch, "run", ("--agent", "local-search")), (Result, "trace", ())]


@pytest.mark.parametrize(("kind", "work", "more"), MOMENTS)
def test_a_faster_plan_that_came_later_stays(
    run: Run, best: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, work: str, more: tuple[str, ...]
) -> None:
    """A plan of another run into the same folder, while this one searched."""
    best.rename(tmp_path / "later.json")
    fast = (tmp_path / "later.json").read_bytes()
    before = {path.name: path.read_bytes() for path in best.parent.iterdir()}
    monkeypatch.setattr(kind, work, arriving(getattr(kind, work), tmp_path / "later.json", best))
    assert "Not written: o/plan.json is faster" in run("solve", MODEL, *SLOW, *more).stdout
    assert best.read_bytes() == fast
    if not more:  # a first agent has written its trace
        assert {path.name: path.read_bytes() for path in best.parent.iterdir()} == {**before, "plan.json": fast}


def arriving(work: Callable[..., Any], source: Path, target: Path) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        source.rename(target)
        return work(*arguments)

    return run


def test_force(parsed: Callable[..., Any], best: Path) -> None:
    before = best.read_bytes()
    summary = parsed("solve", MODEL, *SLOW, "--force")
    assert summary["files"]["plan"] == "o/plan.json"
    assert summary["standing_s"] is None
    assert best.read_bytes() != before


def test_a_slower_plan_goes(run: Run, best: Path) -> None:
    fast = best.read_bytes()
    assert run("solve", MODEL, *SLOW, "--force").exit_code == 0
    assert "Written: " in run("solve", MODEL, "--out", "o").stdout
    assert best.read_bytes() == fast


def test_a_plan_that_cannot_run_goes(run: Run, best: Path) -> None:
    document = json.loads(best.read_text())
    document["allocations"] = document["allocations"][1:]
    best.write_text(json.dumps(document))
    assert "Written: " in run("solve", MODEL, *SLOW).stdout


@pytest.mark.parametrize(("other", "what"), [((OTHER,), "program"), ((MODEL, "-a", "tpu-v4i"), "chip")])
def test_a_plan_for_another_task_stays(run: Run, best: Path, other: tuple[str, ...], what: str) -> None:
    """The refusal comes before any search."""
    before = best.read_bytes()
    refused = run("solve", *other, "--out", "o")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("memplace: o/plan.json is a plan for another task, ")
    assert refused.stderr.endswith(f": not the same {what}; pass --out for another folder, or --force to replace it.\n")
    assert best.read_bytes() == before
    assert run("solve", *other, "--out", "o", "--force").exit_code == 0
    assert MemoryPlan.load(best).program_sha256 != json.loads(before)["program_sha256"] or "-a" in other


def test_what_is_no_plan_stays(run: Run, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "plan.json").write_text("my plan for the weekend")
    refused = run("solve", MODEL, *SLOW)
    assert refused.exit_code == 2
    assert "not a usable plan" in refused.stderr
    assert "--force" in refused.stderr
    assert (tmp_path / "o" / "plan.json").read_text() == "my plan for the weekend"
    assert run("solve", MODEL, *SLOW, "--force").exit_code == 0
