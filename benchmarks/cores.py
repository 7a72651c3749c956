"""Processes with one core each, so that times compare whatever uses threads."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.queues import Queue
from threading import Thread


def single_cores(jobs: int) -> ProcessPoolExecutor:
    """Return a pool of at most `jobs` processes, each on its own core."""
    context = get_context("spawn")
    cores: Queue[int] = context.Queue()
    for core in sorted(os.sched_getaffinity(0))[:jobs]:
        cores.put(core)
    return ProcessPoolExecutor(cores.qsize(), context, _take_core, (cores,))


def single_processes(jobs: int) -> ProcessPoolExecutor:
    """Return a pool of at most `jobs` processes, a new one for each call."""
    return ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=1)


def _take_core(cores: Queue[int]) -> None:
    os.sched_setaffinity(0, {cores.get()})
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the main process is gone, and end this one, whose results nobody would record."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
