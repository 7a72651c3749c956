"""Who searches: agents of third parties, another package in place of ours, and nothing computed twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.heuristic import RandomSearch
from agents.xla_msa import PUBLIC_SETS, MsaOptions, assignment
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from tests.cli.conftest import MODEL, Run

GAME = ("solve", f"{MODEL}&accelerator=tpu-v4i", "--formulation", "game")
REPOSITORY = Path(__file__).parents[2]

THEIRS = '''
from agents import Agent, MapEvaluator
from memplace_env.registration import Formulation


class Native(Agent[MapEvaluator]):
    """Leaves everything as the compiler has it."""

    name = "theirs"
    formulations = (Formulation.ONE_SHOT,)

    def run(self, evaluator, seed):
        evaluator.offer(evaluator.env.plan())
'''


@pytest.fixture
def _theirs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with an agent, and with one that cannot be loaded."""
    site = tmp_path_factory.mktemp("site")
    (site / "their_agents.py").write_text(THEIRS)
    info = site / "their_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-agents\nVersion: 1.0\n")
    points = "[memplace.agents]\ntheirs = their_agents:Native\nbroken = their_agents:Missing\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "their_agents", raising=False)


@pytest.mark.usefixtures("_theirs")
def test_agents_of_third_parties(run: Run, parsed: Callable[..., Any]) -> None:
    rows = [row for row in parsed("agents") if row["name"] == "theirs"]
    line = "Leaves everything as the compiler has it."
    assert rows == [{"name": "theirs", "formulation": "one-shot", "description": line}]
    found = parsed("solve", MODEL, "--agent", "theirs", "--bound", 0)
    assert (found["agent"], found["evaluations"], found["speedup"]) == ("theirs", 1, 1)
    refused = run(*GAME, "--agent", "theirs")
    assert refused.exit_code == 2
    assert "theirs plays --formulation one-shot; for game there are: native, exact, portfolio" in refused.stderr


@pytest.mark.usefixtures("_theirs")
def test_a_broken_agent_is_listed_and_refused(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    assert all("cannot be loaded" in row["description"] for row in parsed("agents") if row["name"] == "broken")
    result = run("solve", MODEL, "--agent", "broken")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "broken cannot be loaded" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", ["agents.py", "agents/__init__.py"])
def test_another_package_called_agents(tmp_path: Path, file: str) -> None:
    """It hides ours: one sentence, and its code does not run; what needs no agent works."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("raise SystemExit(3)")

    def memplace(*arguments: str) -> subprocess.CompletedProcess[str]:
        path = f"{tmp_path}{os.pathsep}{REPOSITORY}"
        command = [sys.executable, "-P", "-m", "memplace_env.cli", *arguments]
        environment = os.environ | {"PYTHONPATH": path}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    for arguments in (["agents"], ["solve", MODEL], ["train", "egrl", MODEL], [*GAME, "--agent", "xla-msa"]):
        done = memplace(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"memplace: Another package called 'agents', in {tmp_path}")
        assert done.stderr.count("\n") == 1
    assert memplace("solve", "--help").returncode == 0
    assert memplace("accelerators").returncode == 0


@pytest.mark.parametrize("agent", ["portfolio", "xla-msa"])
def test_xla_assigns_once_for_each_option_set(
    parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Rivals, searches and progress all need its plans."""
    calls = Counter[MsaOptions]()
    assign = assignment.assign

    def counted(task: Task, options: MsaOptions) -> MemoryPlan:
        calls[options] += 1
        return assign(task, options)

    monkeypatch.setattr(assignment, "assign", counted)
    parsed(*GAME, "--agent", agent, "--budget", 16)
    assert calls == {each.options: 1 for each in PUBLIC_SETS}


def test_an_agent_that_returns_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RandomSearch, "solve", lambda self, env, **options: None)
    result = run("solve", MODEL, "--agent", "random")
    assert result.exit_code == 2
    assert result.stderr == "memplace: random returned NoneType, which is no agents.Solution.\n"
    assert list(tmp_path.iterdir()) == []
