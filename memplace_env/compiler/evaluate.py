"""Many mappings at once: compile and time them on all cores, without building a plan for each."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.compiler import resident, streamed
from memplace_env.compiler.schedule import Schedule
from memplace_env.workload.program import Ints

_ROWS_PER_TASK = 64


class Evaluation(NamedTuple):
    """What B mappings cost once the compiler has made plans of them.

    Attributes:
        latency_ps: int64[B].
        dynamic_pj: int64[B], energy without static power.
        reassigned_bytes: int64[B], bytes that did not get the level they asked for.
        level: int8[B, K], the level that each tensor got.
    """

    latency_ps: Ints
    dynamic_pj: Ints
    reassigned_bytes: Ints
    level: NDArray[np.int8]


def evaluate(s: Schedule, choices: NDArray[np.integer], slot: Ints, threads: int | None = None) -> Evaluation:
    """Cost of each row of `choices` int[B, M], in which tensor k wants `choices[b, slot[k]]`.

    Rows are independent, so the result does not depend on `threads` (default: all cores).
    """
    rows = len(choices)
    out, level = np.empty((3, rows), dtype=np.int64), np.empty((rows, len(slot)), dtype=np.int8)
    choices = np.ascontiguousarray(choices)
    place_rows = kernel_of(s)
    in_chunks(lambda first, last: place_rows(s, choices, slot, out, level, first, last), rows, threads)
    return Evaluation(out[0], out[1], out[2], level)


def kernel_of(s: Schedule) -> Callable[..., tuple[Ints, Ints]]:
    """The compiled `place_rows` for the schedule's machine.

    Numba's cache notices changes of a kernel's own file only, so each kernel has all it calls in its file.
    """
    return streamed.place_rows if s.streamed else resident.place_rows


def in_chunks(work: Callable[[int, int], Any], rows: int, threads: int | None = None) -> None:
    """Call `work(first, last)` for ranges that cover 0..rows, side by side where there are rows and cores enough.

    `work` must release the interpreter (compiled kernels do) and write to its own rows only.
    """
    workers = min(threads or available_cores(), -(-rows // _ROWS_PER_TASK))
    if workers <= 1:
        work(0, rows)
        return
    edges = np.linspace(0, rows, workers + 1).astype(np.int64).tolist()
    for task in [_pool(workers).submit(work, *ends) for ends in pairwise(edges)]:
        task.result()


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="memplace")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child that kept the pool would wait for ever.
    os.register_at_fork(after_in_child=_pool.cache_clear)
