"""Runs in this process, in others and on a cluster: the same results, whoever dies."""

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from memplace_env._lib.errors import WorkerError
from memplace_leaderboard.executors import run_all
from tests.patience import patience

TASKS = [f"task {number}" for number in range(12)]


def shout(task):
    return task.upper()


def refuse(task):
    raise WorkerError(f"not {task}")


class Mortal:
    """Works a while; the first worker that meets a certain task is killed."""

    def __init__(self, folder, deadly, seconds=0.0):
        self.folder, self.deadly, self.seconds = Path(folder), deadly, seconds

    def __call__(self, task):
        grave = self.folder / "grave"
        time.sleep(self.seconds)
        if task == self.deadly and not grave.exists():
            grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return task.upper()


@pytest.mark.parametrize("workers", [1, 2])
def test_all_tasks_are_done(workers):
    assert dict(run_all(TASKS, shout, workers)) == {task: task.upper() for task in TASKS}
    assert list(run_all([], shout, workers)) == []
    with pytest.raises(WorkerError, match="not task 0"):
        list(run_all(TASKS[:1], refuse, workers))


def test_a_killed_process_loses_nothing(tmp_path):
    results = dict(run_all(TASKS, Mortal(tmp_path, "task 5"), 2))
    assert (tmp_path / "grave").exists()
    assert results == dict(run_all(TASKS, shout))


def test_the_folder_of_the_caller_is_found(tmp_path, monkeypatch):
    (tmp_path / "own_agent.py").write_text("def work(task):\n    return task + '!'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    import own_agent

    try:
        assert dict(run_all(["a", "b"], own_agent.work, 2)) == {"a": "a!", "b": "b!"}
    finally:
        del sys.modules["own_agent"]


def test_an_interrupt_ends_everybody():
    code = """
import time
from memplace_leaderboard.executors import run_all
for task, _ in run_all([0.0, 0.0, 60.0, 60.0], time.sleep, 2):
    print(task, flush=True)
"""
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0)
    assert [process.stdout.readline() for _ in range(2)] == ["0.0\n"] * 2
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=patience(30))
    assert told.endswith("KeyboardInterrupt\n")
    assert told.count("Traceback") == 1
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_no_workers_are_refused():
    with pytest.raises(WorkerError, match="workers must be at least 1, not 0"):
        run_all(TASKS, shout, 0)


def test_without_ray_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WorkerError, match=r'pip install "memplace\[distributed\]"\.$'):
        run_all(TASKS, shout, ray="local")


@pytest.mark.thorough
def test_a_cluster_that_loses_a_worker_and_a_node_loses_nothing(tmp_path):
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    size = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={**size, "include_dashboard": False})
        try:
            node = cluster.add_node(**size)
            results = {}
            for task, result in run_all(TASKS, Mortal(tmp_path, "task 1", 0.3), ray=cluster.address):
                results[task] = result
                if len(results) == 4:
                    cluster.remove_node(node, allow_graceful=False)
            assert (tmp_path / "grave").exists()
            assert results == dict(run_all(TASKS, shout))
            with pytest.raises(WorkerError, match="not task 0"):
                list(run_all(TASKS[:1], refuse, ray=cluster.address))
        finally:
            cluster.shutdown()


@pytest.mark.slow
def test_a_cluster_here():
    pytest.importorskip("ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        assert dict(run_all(TASKS, shout, ray="local")) == dict(run_all(TASKS, shout))
        with pytest.raises(WorkerError, match=r"^There is no Ray cluster at '127.0.0.1:1' "):
            list(run_all(TASKS, shout, ray="127.0.0.1:1"))
