"""Which changes of level make one plan faster than another: the time of each way from one memory to another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.analysis.judged import Judged
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.workload.program import Ints


class Route(NamedTuple):
    """What one plan serves from level `source` and another from level `target`.

    Attributes:
        source, target: levels.
        tensors: int64[N], what goes that way, what saves most (or, if all loses, loses most) first.
        saved_ps: what the other plan's ops take less for it; negative if more.
    """

    source: int
    target: int
    tensors: Ints
    saved_ps: float

    def to_json(self, task: Task) -> dict[str, Any]:
        """Plain JSON values, times in seconds."""
        names = [level.name for level in task.accelerator.levels]
        return {
            "source": names[self.source],
            "target": names[self.target],
            "tensors": [task.program.tensor_name[tensor] for tensor in self.tensors],
            "saved_s": self.saved_ps * PS,
        }


def routes_between(task: Task, first: Judged, second: Judged) -> list[Route]:
    """The routes from the first plan's levels to the second's, what changes most time first.

    An op's saving, without stalls, is shared by those of its moved uses that alone would save time, a loss by those
    that would lose time, in proportion to the difference of their costs. Our choice: an op takes the maximum of
    what its uses take, so that a use has no time of its own. With the change of `waits_ps` they add up to the
    difference of the latencies.
    """
    program, costs, levels = task.program, task.costs, task.accelerator.num_levels
    before, after = (judged.plan.use_level.astype(np.int64) for judged in (first, second))
    use = np.flatnonzero(before != after)
    op, tensor = program.use_op[use], program.use_tensor[use]
    saved_ps = first.report.op_time_ps - second.report.op_time_ps
    alone = costs.use_ps[use, before[use]] - costs.use_ps[use, after[use]]
    weight = np.clip(alone * np.sign(saved_ps[op]), 0, None).astype(np.float64)
    nobody = np.bincount(op, weight, program.num_ops)[op] == 0  # as where a level's latency decides
    weight[nobody] = 1
    part = saved_ps[op] * weight / np.bincount(op, weight, program.num_ops)[op]
    ways = before[use] * levels + after[use]
    found = []
    for way in np.unique(ways).tolist():
        mine = ways == way
        found.append(_route(way // levels, way % levels, tensor[mine], part[mine]))
    return sorted(found, key=lambda route: -abs(route.saved_ps))


def _route(source: int, target: int, tensor: Ints, saved_ps: NDArray[np.float64]) -> Route:
    """One route: tensor int64[N] and what is saved float64[N] of each of its uses."""
    total = float(saved_ps.sum())
    tensors, at = np.unique(tensor, return_inverse=True)
    each = np.bincount(at, saved_ps)
    return Route(source, target, tensors[np.argsort(-each if total >= 0 else each, kind="stable")], total)


def deciding_levels(task: Task, routes: Sequence[Route], least: float = 0.1) -> list[int]:
    """The on-chip levels, fastest first, whose routes change more than that share of all that is saved and lost.

    The fastest level if there are none.
    """
    changed = np.zeros(task.accelerator.num_levels)
    for route in routes:
        changed[[route.source, route.target]] += abs(route.saved_ps)
    total = sum(abs(route.saved_ps) for route in routes)
    deciding = [level for level in range(task.accelerator.backing) if changed[level] > least * total]
    return deciding or [0]
