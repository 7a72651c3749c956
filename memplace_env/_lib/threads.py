"""Work on many items at once, on all cores, that is safe beside processes that fork."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from memplace_env._lib.units import ceil_div

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801 - the name of the one in functools
        """`functools.cached_property` as of Python 3.12: without the lock that all objects of a class share.

        A process that is forked while a thread of its parent holds that lock would wait for it for ever.
        """

        def __init__(self, make):
            self._make, self.__doc__ = make, make.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._make(instance)
            return value


LEAST_EACH = 64
"""Least items of a few microseconds for which a thread of its own is worth starting."""


def in_chunks(
    work: Callable[[int, int], Any], count: int, threads: int | None = None, *, least_each: int = LEAST_EACH
) -> None:
    """Call `work(first, last)` for ranges that cover 0..count, side by side where there are items and cores enough.

    `work` must release the interpreter (compiled kernels do) and write to its own items only.
    """
    workers = ceil_div(count, least_each)
    if workers > 1:
        workers = min(threads or available_cores(), workers)
    if workers <= 1:
        work(0, count)
        return
    edges = np.linspace(0, count, workers + 1).astype(np.int64).tolist()
    for task in [_pool(workers).submit(work, *ends) for ends in pairwise(edges)]:
        task.result()


def available_cores() -> int:
    """Return the cores that this process may run on; no more than OMP_NUM_THREADS, as Ray sets it for its tasks."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return max(min(cores, int(limit)), 1) if limit.isdecimal() else cores


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="memplace")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that kept the pool would wait for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)
