"""The crew: everything is done once, whichever worker dies; failures come back; no process is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memplace_env._lib.errors import WorkerError
from memplace_env._lib.processes import ATTEMPTS, Crew
from memplace_env._lib.threads import available_cores
from tests.patience import patience


def square(number):
    return number * number


def fussy(number):
    if number == 2:
        raise ValueError("not two")
    return number


class Deadly:
    """Kills its worker the first so many times that it meets an item."""

    def __init__(self, folder, item, times):
        self.folder, self.item, self.times = Path(folder), item, times

    def __call__(self, number):
        if number == self.item and len(list(self.folder.iterdir())) < self.times:
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number, os.getpid()


@pytest.fixture(scope="module")
def crew():
    with Crew(2) as crew:
        yield crew


def test_each_item_is_done_once(crew):
    for count in (0, 1, 7):
        assert dict(crew.map_unordered(square, range(count))) == {number: number**2 for number in range(count)}


def test_workers_are_kept_and_functions_change(crew):
    list(crew.map_unordered(square, range(4)))
    before = crew.process_ids
    offset = 10
    assert dict(crew.map_unordered(lambda number: number + offset, [1, 2])) == {0: 11, 1: 12}
    assert crew.process_ids == before


def test_what_the_function_raises_comes_back(crew):
    with pytest.raises(ValueError, match="not two"):
        list(crew.map_unordered(fussy, range(5)))
    assert dict(crew.map_unordered(square, [3])) == {0: 9}


def test_a_dead_worker_loses_nothing(crew, tmp_path, caplog):
    done = dict(crew.map_unordered(Deadly(tmp_path, 3, ATTEMPTS - 1), range(8)))
    assert caplog.messages == ["A worker process died while working on 3, which begins again."] * (ATTEMPTS - 1)
    assert {record.name for record in caplog.records} == {"memplace"}
    assert {index: number for index, (number, _) in done.items()} == {number: number for number in range(8)}
    dead = {int(path.name) for path in tmp_path.iterdir()}
    assert len(dead) == ATTEMPTS - 1
    assert done[3][1] not in dead


def test_an_idle_worker_that_is_killed_is_replaced(crew):
    list(crew.map_unordered(square, range(4)))
    os.kill(crew.process_ids[0], signal.SIGKILL)
    assert dict(crew.map_unordered(square, range(6))) == {number: number**2 for number in range(6)}


def test_work_that_always_kills_is_given_up(crew, tmp_path):
    with pytest.raises(WorkerError, match=rf"^{ATTEMPTS} worker processes died while working on item 1; run it"):
        list(crew.map_unordered(Deadly(tmp_path, 1, 99), range(3), "item {}".format))
    assert dict(crew.map_unordered(square, [3])) == {0: 9}


def test_closing_ends_everybody():
    crew = Crew(2)
    doing = crew.map_unordered(time.sleep, [60.0, 0.0, 60.0])
    assert next(doing) == (1, None)
    workers = [Path(f"/proc/{process}") for process in crew.process_ids]
    assert all(worker.exists() for worker in workers)
    doing.close()
    crew.close()
    assert not any(worker.exists() for worker in workers)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores are given on Linux only")
def test_pinned_workers_have_a_core_each():
    with Crew(2, pinned=True) as crew:
        cores = [core for _, core in crew.map_unordered(lambda _: tuple(os.sched_getaffinity(0)), range(8))]
    assert {len(core) for core in cores} == {1}
    assert len(set(cores)) <= min(2, available_cores())


def test_no_workers_are_refused():
    with pytest.raises(WorkerError, match="must be at least 1, not 0"):
        Crew(0)


def test_scripts_need_no_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
from memplace_env._lib.processes import Crew

class Box:
    def __init__(self, number):
        self.number = number

crew = Crew(2)
print(sorted(box.number for _, box in crew.map_unordered(lambda box: Box(box.number + 1), map(Box, range(3)))))
""")
    done = subprocess.run([sys.executable, "-W", "error", script], capture_output=True, text=True, timeout=patience(60))
    assert (done.stdout, done.stderr) == ("[1, 2, 3]\n", "")
