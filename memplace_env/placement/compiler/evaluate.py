"""Many assignments at once: compile and time them on all cores, without building a plan for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.threads import in_chunks
from memplace_env.placement.compiler import resident, streamed
from memplace_env.placement.compiler.placing_order import Schedule
from memplace_env.program.program import Ints


class Evaluation(NamedTuple):
    """Costs of B assignments once the compiler has made plans of them.

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


def evaluate_assignments(
    schedule: Schedule, assignments: NDArray[np.integer], decision_of: Ints, threads: int | None = None
) -> Evaluation:
    """Return the costs of `assignments` int[B, M]; tensor k requests the level `assignments[b, decision_of[k]]`.

    They are independent, so the result does not depend on `threads` (default: all cores).
    """
    count = len(assignments)
    out, levels = np.empty((3, count), dtype=np.int64), np.empty((count, len(decision_of)), dtype=np.int8)
    assignments = np.require(assignments, np.int64, ["C", "W"])  # any other array would compile the kernel again
    place_all = kernel_of(schedule)

    def place_range(first: int, last: int) -> None:
        place_all(schedule, assignments, decision_of, out, levels, first, last)

    in_chunks(place_range, count, threads)
    return Evaluation(out[0], out[1], out[2], levels)


def kernel_of(schedule: Schedule) -> Callable[..., tuple[Ints, Ints]]:
    """Return the compiled `place_all` for the schedule's machine."""
    chosen: Callable[..., tuple[Ints, Ints]] = streamed.place_all if schedule.streamed else resident.place_all
    return chosen
