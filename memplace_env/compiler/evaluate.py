"""Many mappings at once: compile and time them on all cores, without building a plan for each."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from memplace_env.compiler.resident import place_resident
from memplace_env.compiler.schedule import Schedule
from memplace_env.compiler.streamed import place_streamed
from memplace_env.workload.program import Ints

_ROWS_PER_TASK = 64


class Evaluation(NamedTuple):
    """What B mappings cost once the compiler has made plans of them.

    Attributes:
        latency_ps: int64[B].
        dynamic_pj: int64[B], energy without static power.
        reassigned_bytes: int64[B], bytes that did not get the level they asked for.
    """

    latency_ps: Ints
    dynamic_pj: Ints
    reassigned_bytes: Ints


def evaluate(s: Schedule, choices: NDArray[np.integer], slot: Ints, threads: int | None = None) -> Evaluation:
    """Cost of each row of `choices` int[B, M], in which tensor k wants `choices[b, slot[k]]`.

    Rows are independent, so the result does not depend on `threads` (default: all cores).
    """
    rows = len(choices)
    out = np.empty((3, rows), dtype=np.int64)
    choices = np.ascontiguousarray(choices)
    workers = min(threads or available_cores(), -(-rows // _ROWS_PER_TASK))
    if workers <= 1:
        _evaluate_rows(s, choices, slot, out, 0, rows)
    else:
        edges = np.linspace(0, rows, workers + 1).astype(np.int64)
        tasks = [
            _pool(workers).submit(_evaluate_rows, s, choices, slot, out, edges[i], edges[i + 1]) for i in range(workers)
        ]
        for task in tasks:
            task.result()
    return Evaluation(*out)


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="memplace")


@njit(cache=True, nogil=True)
def place(s, choice, slot, level, offset, start, scratch, free_ps):  # type: ignore[no-untyped-def]
    """Place one mapping by the machine's own rule; scratch is int64[L - 1, 3, W + R + 1]."""
    if s.streamed:
        return place_streamed(s, choice, slot, level, offset, start, scratch, free_ps)
    return place_resident(s, choice, slot, level, offset, scratch)


@njit(cache=True, nogil=True)
def _evaluate_rows(s, choices, slot, out, first, last):  # type: ignore[no-untyped-def]
    tensors, ops = len(s.tensor_bytes), len(s.item_ptr) - 1
    level = np.empty(tensors, dtype=np.int8)
    offset = np.empty(tensors, dtype=np.int64)
    start = np.empty(tensors, dtype=np.int64)
    scratch = np.empty((len(s.capacity) - 1, 3, len(s.item_tensor) + 1), dtype=np.int64)
    free_ps = np.empty(ops, dtype=np.int64)
    for row in range(first, last):
        out[0, row], out[1, row], out[2, row] = place(s, choices[row], slot, level, offset, start, scratch, free_ps)
