"""A .tflite file on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memplace_env.cli.app import app
from tests.fuzz.kinds.tflite_files import SMALL

CHIP = ("--accelerator", "ethos-u65")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_a_file_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.tflite").write_bytes(SMALL)
    assert "none, all are fixed" in run("inspect", "net.tflite", *CHIP, "--fusion", "chain")
    run("solve", "net.tflite", *CHIP, "--agent", "random", "--budget", "4")
    plan = "out/net-ethos-u65-random/plan.json"
    run("validate", "net.tflite", plan)
    run("simulate", "net.tflite", plan)
    assert json.loads(Path(plan).read_text())["program"] == "net"
