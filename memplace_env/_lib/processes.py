"""A crew of worker processes: each item is worked on once, and again by another worker if one dies meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, TypeVar

import cloudpickle

from memplace_env._lib.errors import WorkerError
from memplace_env._lib.logger import LOGGER

ATTEMPTS = 3
"""Number of workers that may die while they work on one item before it is given up."""
_GRACE_S = 5.0
"""Seconds in which a worker that is idle must end."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(eq=False)
class _Worker:
    """A process at the other end of a pipe.

    Attributes:
        process, pipe: its process, and this end of its pipe.
        core: number that decides its core, None for all cores.
        function: the one that it was sent last.
        item: number of the item that it works on, -1 when it is idle.
    """

    process: subprocess.Popen[bytes]
    pipe: Connection
    core: int | None
    function: object = None
    item: int = -1


class Crew:
    """Worker processes, started when they are first needed and kept until `close`.

    They are new interpreters with this one's search path, which do not run the caller's main module: a script needs no
    `if __name__ == "__main__"`, and what is defined in it travels by value.

    Args:
        workers: how many.
        pinned: whether each has a core of its own, as far as there are so many.

    Raises:
        WorkerError: if there are no workers.
    """

    def __init__(self, workers: int, pinned: bool = False) -> None:
        if workers < 1:
            raise WorkerError(f"workers must be at least 1, not {workers}.")
        self._workers: list[_Worker] = []
        self._size, self._owner = workers, os.getpid()
        self._pinned = pinned and hasattr(os, "sched_setaffinity")
        self._end = weakref.finalize(self, _dismiss, self._workers, self._owner)

    def map_unordered(
        self, work: Callable[[T], R], items: Iterable[T], name: Callable[[T], str] = repr
    ) -> Iterator[tuple[int, R]]:
        """Yield the index of each item and the function's result for it, as items are done.

        The function is sent once to each worker, not with every item. Finish or close one such iterator before the
        next one.

        Args:
            work: the function.
            items: any number; taken when a worker is free.
            name: returns the name of an item in messages.

        Raises:
            WorkerError: if workers die over one item again and again.
            Exception: what the function raises.
        """
        code = cloudpickle.dumps(work)
        coming, again = enumerate(items), deque[tuple[int, T]]()
        doing: dict[int, T] = {}
        deaths: Counter[int] = Counter()
        try:
            while True:
                while self._has_room():
                    following = again.popleft() if again else next(coming, None)
                    if following is None:
                        break
                    worker = self._free()
                    worker.item, item = following
                    doing[worker.item] = item
                    self._send(worker, work, code, item)
                busy = {worker.pipe: worker for worker in self._workers if worker.item >= 0}
                if not busy:
                    return
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    number, answer = worker.item, _answer(worker.pipe)
                    item = doing.pop(number)
                    if answer is None:
                        self._bury(worker)
                        deaths[number] += 1
                        if deaths[number] == ATTEMPTS:
                            raise WorkerError(
                                f"{ATTEMPTS} worker processes died while working on {name(item)}; run it "
                                "without workers to see why, or give them more memory."
                            )
                        LOGGER.warning("A worker process died while working on %s, which begins again.", name(item))
                        again.append((number, item))
                        continue
                    worker.item = -1
                    good, value = answer
                    if not good:
                        raise value
                    yield number, value
        finally:
            for worker in [worker for worker in self._workers if worker.item >= 0]:
                self._bury(worker)  # its result is not needed any more

    def close(self) -> None:
        """End the workers; the next use starts new ones."""
        _dismiss(self._workers, self._owner)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the workers that are running."""
        return [worker.process.pid for worker in self._workers]

    def _has_room(self) -> bool:
        """Return whether a worker has no item, or one more may be started."""
        if self._owner != os.getpid():  # a forked child has not got the workers of its parent
            self._workers, self._owner = [], os.getpid()
            self._end = weakref.finalize(self, _dismiss, self._workers, self._owner)
        return len(self._workers) < self._size or any(worker.item < 0 for worker in self._workers)

    def _free(self) -> _Worker:
        """Return a worker without an item, started if need be."""
        for worker in self._workers:
            if worker.item < 0:
                return worker
        taken = {worker.core for worker in self._workers}
        core = next(number for number in range(self._size) if number not in taken) if self._pinned else None
        self._workers.append(_hire(core))
        return self._workers[-1]

    @staticmethod
    def _send(worker: _Worker, work: object, code: bytes, item: object) -> None:
        """Send a worker an item; if it is dead, that shows when its answer is read."""
        try:
            if worker.function is not work:
                worker.pipe.send_bytes(code)
                worker.function = work
            else:
                worker.pipe.send_bytes(b"")
            worker.pipe.send_bytes(cloudpickle.dumps(item))
        except OSError:
            pass

    def _bury(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.wait()
        worker.pipe.close()


def _hire(core: int | None) -> _Worker:
    """Start a worker."""
    ours, theirs = Pipe()
    # Ctrl-C goes to the whole group of processes; the process that started the workers handles it.
    code = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    code += "" if core is None else f"os.sched_setaffinity(0, {{{_core(core)}}}); "
    code += f"sys.path[:] = {[path or os.getcwd() for path in sys.path]!r}; "
    code += f"from memplace_env._lib.processes import serve; serve({theirs.fileno()})"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
    theirs.close()
    return _Worker(process, ours, core)


def _core(number: int) -> int:
    cores = sorted(os.sched_getaffinity(0))
    return cores[number % len(cores)]


def _answer(pipe: Connection) -> tuple[bool, Any] | None:
    """Return whether the function returned, with its result or its exception; None if the worker is dead."""
    try:
        answer: tuple[bool, Any] = cloudpickle.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        return None
    return answer


def _dismiss(workers: list[_Worker], owner: int) -> None:
    """End the workers, at once those that are busy."""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.pipe.close()
        if worker.item >= 0:
            worker.process.kill()
    for worker in workers:
        try:
            worker.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
    workers.clear()


def serve(handle: int) -> None:
    """Work on items until the other end of the pipe is closed: the main loop of a worker."""
    pipe, work = Connection(handle), b""
    while True:
        try:
            code, item = pipe.recv_bytes(), pipe.recv_bytes()
        except (EOFError, OSError):
            return
        work = code or work
        answer = answer_of(work, item)
        try:
            pipe.send_bytes(answer)
        except OSError:
            return


def answer_of(work: bytes, item: bytes) -> bytes:
    """Return, pickled, whether the pickled function returned for the pickled item, and its result or its exception."""
    try:
        answer: bytes = cloudpickle.dumps((True, _loaded(work)(cloudpickle.loads(item))))
    except Exception as failure:  # whatever the function raises is for the caller
        try:
            answer = cloudpickle.dumps((False, failure))
            cloudpickle.loads(answer)
        except Exception:  # whatever its parts raise
            answer = cloudpickle.dumps((False, RuntimeError(f"{type(failure).__name__}: {failure}")))
    return answer


@lru_cache(maxsize=1)
def _loaded(work: bytes) -> Callable[[Any], Any]:
    """Return the function; the same object for the same pickle, so that its caches stay valid."""
    function: Callable[[Any], Any] = cloudpickle.loads(work)
    return function
