"""`memplace inspect` and the lists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from memplace_env import __version__
from memplace_env.cli.app import app
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import SPLITS, suites
from memplace_env.machine.accelerator import accelerator_names
from memplace_env.program.zoo import zoo_names
from tests.cli.conftest import MODEL, Run

TRAITS = (Formulation.ONE_SHOT.traits, Formulation.GAME.traits)
ROOT: Any = typer.main.get_command(app)
COMMANDS = {
    **{name: command for name, command in ROOT.commands.items() if name != "leaderboard"},
    **{f"leaderboard {name}": command for name, command in ROOT.commands["leaderboard"].commands.items()},
}
PANELS = ("Find a plan", "Look at plans", "Train", "Install", "Leaderboard", "Lists")


def test_inspect(run: Run, parsed: Callable[..., Any]) -> None:
    result = run("inspect", MODEL)
    assert result.exit_code == 0
    assert "By op type" in result.stdout
    assert re.search(r"MAC, [\d.]+ [kMG] vector ops", result.stdout)
    values = parsed("inspect", "BERT", "--dim", "sequence=32", "--batch", 2)
    assert values["dims"] == ["batch", "sequence"]
    assert {"ops", "macs", "weight_bytes", "peak_live_bytes", "intensity", "extremes", "top_ops"} <= values.keys()
    assert "every_op" not in values


def test_inspect_lists_every_op(run: Run, parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = run("inspect", MODEL, "--ops", "--costs", "roofline")
    assert result.exit_code == 0
    every = result.stdout.partition("All ops")[2]
    assert "utilisation" in result.stdout
    assert "1.000×" in every
    assert "…" not in every
    ops = parsed("inspect", MODEL, "--ops")["every_op"]
    assert [op["op"] for op in ops] == list(range(len(ops)))
    assert ops[0].keys() >= {"utilisation", "re_reads", "staged_bytes", "binds"}


def test_workloads(run: Run, parsed: Callable[..., Any]) -> None:
    rows = parsed("workloads")
    assert sorted(row["name"] for row in rows) == sorted(zoo_names())
    listed = {env_id for row in rows for env_id in row["envs"]}
    ids = {traits.env_id(name) for traits in TRAITS for name in traits.named if not name.startswith("MatMul")}
    assert listed == ids
    assert all(row["licence"] and row["kind"] and row["split"] in SPLITS for row in rows)
    assert "text encoder" in run("workloads").stdout
    assert "Training step" in run("workloads", "--family", "ResNet").stdout


def test_workloads_of_a_family_or_a_split(run: Run, parsed: Callable[..., Any]) -> None:
    assert {row["name"] for row in parsed("workloads", "--family", "resnet")} >= {"ResNet50", "ResNet101"}
    assert {row["family"] for row in parsed("workloads", "--family", "resnet")} == {"ResNet"}
    by_split = [parsed("workloads", "--split", split) for split in SPLITS]
    assert sum(map(len, by_split)) == len(zoo_names())
    assert all(row["split"] == split for split, rows in zip(SPLITS, by_split, strict=True) for row in rows)
    for arguments, word in (
        (("workloads", "--family", "ResNets"), "'ResNet'"),
        (("envs", "--suite", "x"), "game-test"),
    ):
        refused = run(*arguments)
        assert refused.exit_code == 2
        assert word in refused.stderr


def test_workload_details(run: Run, parsed: Callable[..., Any]) -> None:
    (row,) = parsed("workloads", "--details", "--family", "AlexNet")
    assert row["ops"] > 0
    assert 60e6 < row["weight_bytes"] / 4 < 63e6
    assert 0.6e9 < row["macs"] < 0.8e9
    assert "fixed" in run("workloads", "--details", "--family", "DLRM").stdout, "a saved program has no dims"


def test_accelerators(run: Run, parsed: Callable[..., Any]) -> None:
    rows = parsed("accelerators")
    assert [row["name"] for row in rows] == list(accelerator_names())
    assert rows[0].keys() >= {"description", "ports", "weights", "fusion", "dtypes", "memories"}
    assert "tpu-v4i" in run("accelerators").stdout


def test_envs(run: Run, parsed: Callable[..., Any]) -> None:
    ids = [row["id"] for row in parsed("envs")]
    assert {"MemPlace-v0", "MemPlace-BERT-v0"} <= set(ids)
    assert sorted(suites()["game-test"]) == [row["id"] for row in parsed("envs", "--suite", "game-test")]
    listed = run("envs").stdout
    assert "MemPlace-BERT-v0" in listed
    assert "draws from" in next(line for line in listed.splitlines() if "MallocGame-Train-v0" in line)


def test_agents(run: Run, parsed: Callable[..., Any]) -> None:
    assert {"exact", "random"} <= {row["name"] for row in parsed("agents")}
    assert "exact" in run("agents").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_can_be_parsed(run: Run, command: str, tmp_path: Path) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Example: memplace {command}" in result.stdout
    for example in re.findall(r"memplace ([^;]+)", COMMANDS[command].epilog):
        arguments = shlex.split(example.removeprefix(command))
        COMMANDS[command].make_context(command, arguments)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_json(command: str) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[command].params)


def test_help_says_the_default_chip_and_dtype(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert "nnp-i; for a game tpu-v4i; for a plan its own" in run("explain", "--help").stdout
    text = run("solve", "--help").stdout
    assert "nnp-i; for a game tpu-v4i; for a plan its own" in text
    assert "the accelerator's; for a plan its own" in text


def test_version_and_bare_call(run: Run) -> None:
    assert run("--version").stdout == f"memplace {__version__}\n"
    bare = run()
    assert bare.exit_code == 0
    assert all(command in bare.stdout for command in ROOT.commands)
    assert all(panel in bare.stdout for panel in PANELS)


@pytest.mark.parametrize("command", ["envs", "workloads", "accelerators", "agents", "leaderboard suites"])
def test_nothing_is_cut_at_80_columns(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    def words(columns: int) -> set[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        text = run(*command.split()).stdout
        assert max(map(len, text.splitlines())) <= columns
        return set(text.split())

    narrow, wide = words(80), words(400)
    assert {word for word in wide if len(word) <= 48 and not word.startswith("synthetic:")} <= narrow
