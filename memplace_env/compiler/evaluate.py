"""Many mappings at once: compile and time them on all cores, without building a plan for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.compiler import resident, streamed
from memplace_env.compiler.schedule import Schedule
from memplace_env.threads import in_chunks
from memplace_env.workload.program import Ints


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


def evaluate_choices(
    schedule: Schedule, choices: NDArray[np.integer], slot: Ints, threads: int | None = None
) -> Evaluation:
    """Cost of each mapping of `choices` int[B, M], in which tensor k wants `choices[b, slot[k]]`.

    Mappings are independent, so the result does not depend on `threads` (default: all cores).
    """
    count = len(choices)
    out, levels = np.empty((3, count), dtype=np.int64), np.empty((count, len(slot)), dtype=np.int8)
    choices = np.ascontiguousarray(choices)
    place_all = kernel_of(schedule)
    in_chunks(lambda first, last: place_all(schedule, choices, slot, out, levels, first, last), count, threads)
    return Evaluation(out[0], out[1], out[2], levels)


def kernel_of(schedule: Schedule) -> Callable[..., tuple[Ints, Ints]]:
    """The compiled `place_all` for the schedule's machine."""
    chosen: Callable[..., tuple[Ints, Ints]] = streamed.place_all if schedule.streamed else resident.place_all
    return chosen
