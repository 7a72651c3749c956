"""Processes with one core each, so that times compare whatever uses threads."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.queues import Queue


def single_cores(jobs: int) -> ProcessPoolExecutor:
    """Return a pool of at most `jobs` processes, each on its own core."""
    context = get_context("spawn")
    cores: Queue[int] = context.Queue()
    for core in sorted(os.sched_getaffinity(0))[:jobs]:
        cores.put(core)
    return ProcessPoolExecutor(cores.qsize(), context, _take_core, (cores,))


def _take_core(cores: Queue[int]) -> None:
    os.sched_setaffinity(0, {cores.get()})
