"""What only shows in a process of its own: the entry point, pipes, signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import MODEL, started

MEMPLACE = [sys.executable, "-m", "memplace_env.cli"]


def test_bad_input() -> None:
    done = subprocess.run([*MEMPLACE, "solve", "nothing"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("memplace: There is no workload 'nothing'")


def test_heavy_modules_stay_out_of_help() -> None:
    code = (
        "import sys\n"
        "from memplace_env.cli import main\n"
        "sys.argv = ['memplace', '--help']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'scipy', 'onnx', 'matplotlib', 'networkx', 'torch'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_closed_pipe_is_quiet() -> None:
    with subprocess.Popen([*MEMPLACE, "accelerators", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*MEMPLACE, "agents"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("memplace: Cannot write the output")


def test_interrupt_keeps_what_an_anytime_agent_has(tmp_path: Path) -> None:
    command = [*MEMPLACE, "solve", "ResNet50", "--formulation", "game", "--budget", str(10**12)]
    with started(command, tmp_path) as run:
        time.sleep(15)
        assert run.poll() is None
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert "the best plan so far is kept" in errors
    assert {path.name for path in (tmp_path / "out").rglob("*.json")} == {"plan.json", "trace.json"}


def test_interrupt_ends_a_search(tmp_path: Path) -> None:
    """Also while the search would take days; nothing is left behind."""
    command = [*MEMPLACE, "solve", MODEL, "--agent", "random", "--budget", str(10**12)]
    with started(command, tmp_path) as run:
        time.sleep(4)
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_json_is_all_there_is_on_stdout(tmp_path: Path) -> None:
    command = [*MEMPLACE, "solve", MODEL, "--agent", "random", "--budget", "8", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stdout)["agent"] == "random"
