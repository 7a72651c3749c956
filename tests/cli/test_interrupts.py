"""Ctrl-C at awkward moments: while modules are imported, while files are written, in a finaliser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import memplace
from memplace_env._lib import files
from memplace_env.cli.interrupts import finishing
from memplace_env.cli.solve_result import Result
from tests.cli.conftest import MODEL, Run
from tests.patience import patience

INTERRUPTED_IMPORT = """
import os, sys
import memplace
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))
sys.meta_path.insert(0, Finder())
memplace.main()
"""


@pytest.mark.parametrize(
    ("module", "number"),
    [("memplace_env.envs.registration", signal.SIGINT), ("memplace_env.cli.solve", signal.SIGTERM)],
)
def test_while_modules_are_imported(module: str, number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module, str(int(number))],
        capture_output=True,
        text=True,
        timeout=patience(60),
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stderr) == (130, "memplace: interrupted.\n")


FINISHED = """
import os, signal, sys
import memplace
class Last:
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)
memplace.last = Last()
sys.argv = ["memplace", "--help"]
memplace.main()
"""


def test_after_the_command_is_done() -> None:
    """Modules are being unloaded: the work is finished, and no signal turns its exit code into -15."""
    done = subprocess.run([sys.executable, "-c", FINISHED], capture_output=True, text=True, timeout=patience(60))
    assert (done.returncode, done.stderr) == (0, "")


def test_one_in_a_finaliser_comes_again() -> None:
    memplace._again(SimpleNamespace(exc_type=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        time.sleep(10)


UNNOTICED = """
import signal
from threading import Event, Thread
from memplace_env.cli.agent_run import new_bar
from memplace_env.cli.interrupts import in_thread

def interrupt_another_thread():
    # The handler marks the signal, but the main thread's wait for a lock is not broken off.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.pthread_kill(__import__("threading").get_ident(), signal.SIGINT)

def work():
    Thread(target=interrupt_another_thread).start()
    return stop.wait(60)

stop = Event()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print(in_thread(work, new_bar(False), lambda: "", stop))
"""


def test_one_that_does_not_wake_the_main_thread() -> None:
    """Simulate one between Python's last look for signals and the wait for a lock: it was lost under load."""
    done = subprocess.run([sys.executable, "-c", UNNOTICED], capture_output=True, text=True, timeout=patience(60))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "the best plan so far is kept" in done.stderr


def test_one_waits_for_what_is_to_be_finished() -> None:
    done = []

    def work(interrupts: int) -> None:
        with finishing():
            for number in range(interrupts):
                signal.raise_signal(signal.SIGINT)
                done.append(number)

    for interrupts in (1, 3):
        with pytest.raises(KeyboardInterrupt):
            work(interrupts)
    assert done == [0, 0]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_folder_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def interrupted(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == "a":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), finishing():
        files.write_together(tmp_path / "new", {"a": b"1", "b": b"2"})
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["a", "b"]


def test_a_plan_that_was_found_is_kept(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Result, "picture", lambda result: signal.raise_signal(signal.SIGINT))
    done = run("solve", MODEL, "--agent", "native", "--out", "out")
    assert done.exit_code == 130
    assert done.stderr.endswith("memplace: interrupted, the best plan so far is in out.\n")
    assert json.loads((tmp_path / "out" / "plan.json").read_text())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["plan.json", "trace.json"]
