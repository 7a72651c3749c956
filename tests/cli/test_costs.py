"""`--costs`: a cost model by name, for every command that makes a task."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_env._lib.plugins import COST_MODELS
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import Costs, Roofline
from memplace_env.program.program import Program
from tests.cli.conftest import MODEL, Run
from tests.entry_points import install

GAME = f"{MODEL}&accelerator=tpu-v4i"
QUICK = ("--agent", "random", "--budget", 8, "--bound", 0)


class Doubled:
    """Twice the time of the roofline for all that ops move."""

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        costs = Roofline().costs(program, accelerator)
        return costs._replace(use_ps=2 * costs.use_ps)


@pytest.fixture
def _doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost model as if it were installed."""
    install(monkeypatch, COST_MODELS, doubled=Doubled)


@pytest.mark.usefixtures("_doubled")
def test_plans_keep_their_costs(parsed: Callable[..., Any]) -> None:
    """Costs that timed a plan time it again without being named; a flag replaces it."""
    found = parsed("solve", MODEL, *QUICK, "--costs", "doubled", "--out", "o")
    assert found["settings"]["costs"] == "doubled"
    again = parsed("simulate", MODEL, "o/plan.json")
    assert again["report"] == found["report"]
    assert again["native_latency_s"] == found["native_latency_s"]
    faster = parsed("simulate", MODEL, "o/plan.json", "--costs", "roofline")
    assert faster["report"]["latency_s"] < found["report"]["latency_s"]
    assert parsed("explain", MODEL, "o/plan.json", "--out", "o")["report"] == found["report"]
    assert parsed("compare", MODEL, "o/plan.json")["plans"][0]["report"] == found["report"]
    assert parsed("validate", MODEL, "o/plan.json", "--costs", "doubled")["valid"]


@pytest.mark.usefixtures("_doubled")
def test_before_anything_is_placed(parsed: Callable[..., Any]) -> None:
    slow, fast = (parsed("inspect", MODEL, "--costs", name)["extremes"] for name in ("doubled", "roofline"))
    assert slow["backing"]["latency_s"] > fast["backing"]["latency_s"]
    assert (
        parsed("solve", MODEL, *QUICK)["settings"]["costs"] == "roofline"
    )  # what synthetic programs are planted under
    assert "costs" not in parsed("solve", "AlexNet", *QUICK)["settings"]


@pytest.mark.usefixtures("_doubled")
def test_games(run: Run, tmp_path: Path) -> None:
    """Games are played, drawn and recognised with the costs that they were made with."""
    for command in (["play", GAME, "--out", "plan.json"], ["render", GAME, "--out", "a.png"]):
        assert run(*command, "--costs", "doubled").exit_code == 0
    assert json.loads((tmp_path / "plan.json").read_text())["settings"]["costs"] == "doubled"
    assert run("render", GAME, "plan.json", "--out", "b.png").exit_code == 0


@pytest.mark.usefixtures("_doubled")
def test_runs_with_other_costs_are_other_runs(run: Run, tmp_path: Path) -> None:
    small = ("--set", "population=6", "--set", "elites=2", "--set", "hidden=16", "--budget", 8)
    train = ("train", "egrl", MODEL, *small, "--out", "o")
    assert run(*train, "--costs", "doubled").exit_code == 0
    (environment,) = json.loads((tmp_path / "o" / "run.json").read_text())["environments"]
    assert environment["costs"] == "doubled"
    other = run(*train, "--resume")
    assert other.exit_code == 2
    assert "other environments" in other.stderr


@pytest.mark.usefixtures("_doubled")
@pytest.mark.parametrize(
    ("typed", "named"),
    [("doubledd", "did you mean 'doubled'?"), ("tpu", "there are roofline, tiled, measured, doubled")],
)
def test_unknown_names(run: Run, tmp_path: Path, typed: str, named: str) -> None:
    for command in (["solve", MODEL], ["inspect", MODEL], ["play", GAME]):
        result = run(*command, "--costs", typed)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.count("\n") == 1
        assert f"No cost model is called {typed!r}; {named}" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_plan_with_costs_that_are_not_installed(run: Run, saved: Path, tmp_path: Path) -> None:
    for said, named in (("theirs", "'theirs'"), (["roofline"], "'costs'")):
        document = json.loads(saved.read_text())
        document["settings"]["costs"] = said
        (tmp_path / "plan.json").write_text(json.dumps(document))
        result = run("simulate", MODEL, "plan.json")
        assert result.exit_code == 2
        assert named in result.stderr
    assert run("simulate", MODEL, saved, "--costs", "roofline").exit_code == 0
