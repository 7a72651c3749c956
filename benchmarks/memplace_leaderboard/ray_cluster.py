"""Runs on a Ray cluster."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar

import cloudpickle

from memplace_env._lib.errors import WorkerError
from memplace_env._lib.lazy import required
from memplace_env._lib.processes import ATTEMPTS

LOCAL: Final = "local"
"""Address that starts a cluster on this machine, which ends with the runs; "local:4" has four workers, however many
cores there are."""
IN_FLIGHT = 4000
"""Tasks that Ray is given at a time: enough for a thousand workers, few enough to wait for. Our choice."""
_CONNECT_S = 10.0

T = TypeVar("T")
R = TypeVar("R")


def run_on_ray(
    tasks: Iterable[T], work: Callable[[T], R], address: str, name: Callable[[T], str]
) -> Iterator[tuple[T, R]]:
    """Yield each task with the function's result; see `executors.run_all`.

    Raises:
        WorkerError: if Ray is missing or cannot be reached, or gives a task up.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Silences a warning that Ray hides accelerators from tasks that ask for none: tasks here use none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = required("ray", "Runs on a cluster need", "Ray", "distributed", WorkerError)
    return _results(ray, iter(tasks), work, address, name)


def _results(
    ray: Any, tasks: Iterator[T], work: Callable[[T], R], address: str, name: Callable[[T], str]
) -> Iterator[tuple[T, R]]:
    with _connected(ray, address):
        attempt = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_attempt())
        code, paths = ray.put(cloudpickle.dumps(work)), ray.put([path or os.getcwd() for path in sys.path])
        doing: dict[Any, T] = {}
        try:
            while True:
                for task in islice(tasks, IN_FLIGHT - len(doing)):
                    doing[attempt.remote(paths, code, cloudpickle.dumps(task))] = task
                if not doing:
                    return
                for done in _ready(ray, list(doing)):
                    task = doing.pop(done)
                    yield task, _answer(ray, done, name(task))
        finally:
            for unwanted in doing:
                ray.cancel(unwanted, force=True)


def _ready(ray: Any, doing: list[Any]) -> list[Any]:
    """Return the finished tasks, at least one."""
    done, _ = ray.wait(doing, num_returns=len(doing), timeout=0)
    ready: list[Any] = done or ray.wait(doing, num_returns=1)[0]
    return ready


def _answer(ray: Any, done: Any, name: str) -> Any:
    try:
        good, value = cloudpickle.loads(ray.get(done))
    except ray.exceptions.RayError as failure:
        raise WorkerError(
            f"Ray gave up {name} after {ATTEMPTS} attempts ({type(failure).__name__}); run it without Ray to see why, "
            "or give its workers more memory."
        ) from failure
    if not good:
        raise value
    return value


def _attempt() -> Callable[[list[str], bytes, bytes], bytes]:
    """Return the function that a worker runs.

    It is defined within a function so that it is pickled by value: workers extend their search path before they import
    the package.
    """

    def attempt(paths: list[str], work: bytes, task: bytes) -> bytes:
        import sys

        sys.path += [path for path in paths if path not in sys.path]
        from memplace_env._lib.processes import answer_of

        return answer_of(work, task)

    return attempt


@contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """Connect to the cluster for a while, unless this process is connected already."""
    if ray.is_initialized():
        yield
        return
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if LOCAL in (address, host):
        where: dict[str, Any] = {"include_dashboard": False, "num_cpus": int(port) if port.isdecimal() else None}
    else:
        _require_open(address, host, port)
        where = {"address": address}
    try:
        ray.init(**where, log_to_driver=False, logging_level="error")
    except (ConnectionError, ValueError, RuntimeError) as failure:
        raise _unreachable(address, failure) from None
    try:
        yield
    finally:
        ray.shutdown()


def _require_open(address: str, host: str, port: str) -> None:
    """Raise a WorkerError if no server listens; Ray itself waits for minutes before it reports that."""
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), _CONNECT_S).close()
        except (OSError, OverflowError) as failure:
            raise _unreachable(address, failure) from None


def _unreachable(address: str, failure: Exception) -> WorkerError:
    reason = " ".join(str(failure).split())
    return WorkerError(f"There is no Ray cluster at {address!r} ({reason}); start one, or pass {LOCAL!r}.")
