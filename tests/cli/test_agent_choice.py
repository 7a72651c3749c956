"""Choice of agents: agents of third parties, another package in place of ours, and nothing computed twice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_agents.random_search import RandomSearch
from memplace_agents.xla_msa import PUBLIC_SETS, MsaOptions, assignment
from memplace_env._lib.version import __version__
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from tests.cli.conftest import MODEL, Run
from tests.patience import patience

GAME = ("solve", f"{MODEL}&accelerator=tpu-v4i", "--formulation", "game")
REPOSITORY = Path(__file__).parents[2]

THEIRS = '''
from memplace_agents import Agent, OneShotEvaluator
from memplace_env.envs.registration import Formulation


class Native(Agent[OneShotEvaluator]):
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
    assert (
        "theirs plays --formulation one-shot; for game there are: best-rule, native, calibrated, exact, portfolio"
        in refused.stderr
    )


@pytest.mark.slow
def test_another_distribution_called_agents(tmp_path: Path) -> None:
    """A wheel of ours beside a distribution with a top-level package `agents`: neither writes over the other."""
    source, site = tmp_path / "source", tmp_path / "site"
    for name in ("memplace_env", "agents"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.onnx"))
    for name in ("memplace.py", "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    for folder in (source, distribution(tmp_path / "other", "agents")):
        install = ["install", "--no-deps", "--no-build-isolation", "--target", str(site), str(folder)]
        subprocess.run([*pip, *install], check=True, timeout=patience(300))
    assert (site / "agents" / "__init__.py").read_text() == FATAL
    assert sorted(path.name for path in site.glob("memplace*")) == [
        f"memplace-{__version__}.dist-info",
        "memplace.py",
        "memplace_agents",
        "memplace_env",
    ]
    command = [sys.executable, "-m", "memplace", "agents", "--json"]
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=patience(60))
    assert done.stderr == ""
    assert "exact" in {row["name"] for row in json.loads(done.stdout)}


FATAL = "raise SystemExit(3)\n"


def distribution(folder: Path, package: str) -> Path:
    """Write the sources of a distribution with one package, whose import ends the process; return its folder."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(FATAL)
    (folder / "setup.py").write_text(f"from setuptools import setup; setup(name='other', packages=[{package!r}])")
    return folder


@pytest.mark.parametrize("agent", ["portfolio", "xla-msa"])
def test_xla_assigns_once_for_each_option_set(
    parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Baselines, searches and progress all need its plans."""
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
    assert result.stderr == "memplace: random returned NoneType, which is not a memplace_agents.Solution.\n"
    assert list(tmp_path.iterdir()) == []
