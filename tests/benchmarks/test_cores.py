"""Processes of benchmarks with one core each."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SCRIPT = """
import os, time
from benchmarks.cores import single_cores

def work():
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    with single_cores(1) as pool:
        pool.submit(work).result()
"""


def test_a_worker_ends_when_its_main_process_is_killed(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    root = Path(__file__).parents[2]
    main = subprocess.Popen(
        [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE
    )
    assert main.stdout is not None
    worker = int(main.stdout.readline())
    main.send_signal(signal.SIGKILL)
    main.wait()
    main.stdout.close()
    try:
        end = time.monotonic() + 60
        while runs(worker) and time.monotonic() < end:
            time.sleep(0.1)
        assert not runs(worker)
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def runs(process):
    """Return whether a process runs; one that has ended may stay as a zombie where nobody asks for its end."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
