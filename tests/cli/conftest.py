"""Running the command line in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from memplace_env.cli.app import app
from tests.patience import patience

MODEL = "synthetic:diamond?ops=9&seed=1"
OTHER = "synthetic:diamond?ops=9&seed=2"

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("solve", MODEL, ...)` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def parsed(run: Run) -> Callable[..., Any]:
    """Runs with --json and gives what stdout holds, which must be nothing else."""

    def call(*arguments: object) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return call


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan that a search saved for MODEL."""
    out = tmp_path_factory.mktemp("saved")
    result = CliRunner().invoke(app, ["solve", MODEL, "--agent", "random", "--budget", "64", "--out", str(out)])
    assert result.exit_code == 0, result.stderr
    return out / "plan.json"


@contextmanager
def started(command: list[str], folder: Path, sign: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has made the file `sign`; always ended.

    It hears Ctrl-C even if this one was told not to, as in the background of a shell.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as run:
        try:
            end = time.monotonic() + patience(300)  # kernels may have to be compiled first
            while not sign.exists() and run.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            assert sign.exists()
            yield run
        finally:
            run.kill()
