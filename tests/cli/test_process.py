"""Behaviour of a process of its own: the entry point, pipes, signals."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from tests.cli.conftest import MODEL, started
from tests.patience import patience

MEMPLACE = [sys.executable, "-m", "memplace"]
REPOSITORY = Path(__file__).parents[2]
LARGE_GAME = "synthetic:matmul?factorisation=strassen-squared&size=8192&dtype=bfloat16"


@pytest.mark.parametrize(("argument", "needed"), [("--help", set()), ("workloads", {"onnx"}), ("agents", set())])
def test_heavy_modules_are_not_loaded_for_little(argument: str, needed: set[str]) -> None:
    heavy = {"numba", "scipy", "onnx", "matplotlib", "networkx", "torch"} - needed
    code = (
        "import sys\n"
        "from memplace import main\n"
        f"sys.argv = ['memplace', {argument!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"sys.exit(', '.join({heavy} & set(sys.modules)) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=patience(60))
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_pipe_is_quiet() -> None:
    with subprocess.Popen([*MEMPLACE, "accelerators", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*MEMPLACE, "agents"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=patience(60)
        )
    assert done.returncode == 2
    assert done.stderr == "memplace: Cannot write the output: No space left on device.\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams(tmp_path: Path, closed: str) -> None:
    """Files must not take their place."""
    command = f"exec {sys.executable} -m memplace accelerators --json {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=patience(60), cwd=REPOSITORY
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "" if closed == ">&-" else json.loads(done.stdout)


def test_a_terminal_that_knows_no_letters_but_ascii() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "TERM": "dumb"}
    done = subprocess.run([*MEMPLACE, "agents"], capture_output=True, timeout=patience(60), env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert b"local-search" in done.stdout


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    command = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m memplace solve '{MODEL}'"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, timeout=patience(60), cwd=tmp_path, env=environment
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "memplace: Cannot work in a folder that is gone: No such file or directory.\n"


def begun(command: list[str], home: str, work: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """A command started in an empty folder, once its search has reached the agent at "module:Class"."""
    (work / "empty").mkdir()
    module, _, kind = home.partition(":")
    code = (
        "import sys, pathlib\n"
        f"from {module} import {kind} as Agent\n"
        "from memplace import main\n"
        "run = Agent.run\n"
        "def marked(*arguments):\n"
        "    pathlib.Path('../begun').touch()\n"
        "    return run(*arguments)\n"
        "Agent.run = marked\n"
        "main()\n"
    )
    return started([sys.executable, "-c", code, *command], work / "empty", work / "begun")


def test_interrupt_keeps_what_an_anytime_agent_has(tmp_path: Path) -> None:
    """The portfolio while its exact agent works, which ends in the middle of a linear program."""
    command = ["solve", LARGE_GAME, "--formulation", "game", "--budget", str(10**12)]
    with begun(command, "memplace_agents.exact:Exact", tmp_path) as run:
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=patience(60))
    assert run.returncode == 0, errors
    assert "the best plan so far is kept" in errors
    assert {path.name for path in (tmp_path / "empty" / "out").rglob("*.json")} == {"plan.json", "trace.json"}


def interrupted(run: subprocess.Popen[str]) -> str:
    """Interrupt a command once; return what it writes to stderr until its end."""
    run.send_signal(signal.SIGINT)
    return run.communicate(timeout=patience(30))[1]


def test_interrupt_ends_a_search(tmp_path: Path) -> None:
    """Also while the search would take days; what it has found is kept, unless it has found nothing yet."""
    command = ["solve", MODEL, "--agent", "random", "--budget", str(10**12)]
    with begun(command, "memplace_agents.random_search:RandomSearch", tmp_path) as run:
        stderr = interrupted(run)
    plans = list((tmp_path / "empty").rglob("plan.json"))
    assert (run.returncode, len(plans)) in ((0, 1), (130, 0)), stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stderr


def _give_up_privileges() -> None:
    """Take from root, in a process about to start, the right to write where nobody may."""
    with suppress(OSError, AttributeError):
        libc, drop = ctypes.CDLL(None), 24  # PR_CAPBSET_DROP
        for capability in range(64):
            libc.prctl(drop, capability, 0, 0, 0)


def test_an_unprivileged_user_of_a_read_only_installation(tmp_path: Path) -> None:
    """Nothing can be written anywhere: the list is all there is."""
    for package in ("memplace_env", "agents/memplace_agents"):
        shutil.copytree(
            REPOSITORY / package, tmp_path / Path(package).name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(REPOSITORY / "memplace.py", tmp_path)
    paths = [tmp_path, *tmp_path.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    home = str(tmp_path)
    done = subprocess.run(
        [*MEMPLACE, "workloads"],
        cwd=tmp_path,
        env={"PATH": os.defpath, "PYTHONPATH": home, "HOME": home, "TMPDIR": home},
        capture_output=True,
        text=True,
        timeout=patience(60),
        preexec_fn=_give_up_privileges,
    )
    assert sorted([tmp_path, *tmp_path.rglob("*")]) == sorted(paths)
    tmp_path.chmod(0o755)
    assert (done.returncode, done.stderr) == (0, "")
    assert "BERT" in done.stdout
