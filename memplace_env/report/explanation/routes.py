"""Routes, the tensors that two plans serve from different memories and the time saved; reasons in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.units import PS
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.report.explanation.bottlenecks import Bottleneck
from memplace_env.report.explanation.differences import Difference
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.quantities import seconds, shortened, size, some_of


class Route(NamedTuple):
    """Tensors that one plan serves from level `source` and another from level `target`.

    Attributes:
        source, target: levels.
        tensors: int64[N], these tensors, numbered as in `Program.whole`; the one that saves most (or, if they lose
            time, loses most) first.
        saved_ps: time that the other plan's ops save by it; negative if they lose time.
    """

    source: int
    target: int
    tensors: Ints
    saved_ps: float

    def to_json(self, task: Task) -> dict[str, Any]:
        """Return plain JSON values, times in seconds."""
        names = [level.name for level in task.accelerator.levels]
        return {
            "source": names[self.source],
            "target": names[self.target],
            "tensors": [task.program.whole.tensor_name[tensor] for tensor in self.tensors],
            "saved_s": self.saved_ps * PS,
        }


def routes_between(task: Task, first: EvaluatedPlan, second: EvaluatedPlan) -> list[Route]:
    """Return the routes from the first plan's levels to the second's, the largest change of time first.

    Savings are those of `saved_by_uses`. With the change of `waits_ps` they add up to the difference of the latencies.
    """
    program, levels = task.program, task.accelerator.num_levels
    before, after = (evaluated.plan.use_level.astype(np.int64) for evaluated in (first, second))
    use, part = saved_by_uses(task, first, second)
    tensor = program.whole_tensor[program.use_tensor[use]]
    pairs = before[use] * levels + after[use]  # a number for each pair of levels
    routes = []
    for pair in np.unique(pairs).tolist():
        mask = pairs == pair
        routes.append(_route(pair // levels, pair % levels, tensor[mask], part[mask]))
    return sorted(routes, key=lambda route: -abs(route.saved_ps))


def saved_by_uses(task: Task, first: EvaluatedPlan, second: EvaluatedPlan) -> tuple[Ints, NDArray[np.float64]]:
    """Return the uses that two plans serve from different levels, int64[N], and what each saves in ps, float64[N].

    An op's saving, without stalls, is shared by those of its moved uses that alone would save time, a loss by those
    that would lose time, in proportion to the difference of their costs. Our choice: an op takes the maximum of
    what its uses take, so that a use has no time of its own.
    """
    program, costs = task.program, task.costs
    before, after = (evaluated.plan.use_level.astype(np.int64) for evaluated in (first, second))
    use = np.flatnonzero(before != after)
    op = program.use_op[use]
    saved_ps = first.report.op_time_ps - second.report.op_time_ps
    alone = costs.use_ps[use, before[use]] - costs.use_ps[use, after[use]]
    weight = np.clip(alone * np.sign(saved_ps[op]), 0, None).astype(np.float64)
    unexplained = np.bincount(op, weight, program.num_ops)[op] == 0  # such as where a level's latency decides
    weight[unexplained] = 1  # then the uses share equally
    return use, saved_ps[op] * weight / np.bincount(op, weight, program.num_ops)[op]


def _route(source: int, target: int, tensor: Ints, saved_ps: NDArray[np.float64]) -> Route:
    """Return one route from its uses: their tensors, int64[N], and the time that each saves in ps, float64[N]."""
    total = float(saved_ps.sum())
    tensors, index = np.unique(tensor, return_inverse=True)
    saved = np.bincount(index, saved_ps)
    return Route(source, target, tensors[np.argsort(-saved if total >= 0 else saved, kind="stable")], total)


def deciding_levels(task: Task, routes: Sequence[Route], least: float = 0.1) -> list[int]:
    """Return the on-chip levels, fastest first, whose routes have more than a fraction `least` of all changes of time.

    The fastest level if there are none.
    """
    changed = np.zeros(task.accelerator.num_levels)
    for route in routes:
        changed[[route.source, route.target]] += abs(route.saved_ps)
    total = sum(abs(route.saved_ps) for route in routes)
    deciding = [level for level in range(task.accelerator.backing) if changed[level] > least * total]
    return deciding or [0]


def bottleneck_reason(bottleneck: Bottleneck) -> str:
    """Return what the op moves at the level that it waits for, and the copies that it waits for."""
    parts = []
    if bottleneck.level is not None:
        moved = [f"{shortened(name, 36)} {size(bytes_)}" for name, bytes_ in bottleneck.tensors]
        parts.append(f"{bottleneck.level} moves {some_of(moved, 3)}")
    if bottleneck.stall_ps:
        awaited = some_of([shortened(name, 36) for name in bottleneck.waits_for], 3)
        parts.append(f"waits {seconds(bottleneck.stall_ps * PS)} for {awaited or 'a copy'}")
    return "; ".join(parts) or "waits for its first load or last store, or for ports that others use"


def why_it_differs(difference: Difference) -> str:
    """Return the tensors that changed level, and how much longer or shorter the op waits for copies."""
    routes: dict[tuple[str, str], list[str]] = {}
    for move in difference.moves:
        text = f"{shortened(move.tensor, 28)} {size(move.bytes)}"
        routes.setdefault((move.source, move.target), []).append(text)
    parts = [f"{source} → {target}: {some_of(texts, 2)}" for (source, target), texts in routes.items()]
    if difference.waits_ps:
        wait = seconds(abs(difference.waits_ps) * PS)
        parts.append(f"waits {wait} {'more' if difference.waits_ps > 0 else 'less'}")
    return "; ".join(parts)


def what_decides(task: Task, first: EvaluatedPlan, second: EvaluatedPlan) -> str:
    """Return the changes that save or cost the second plan most time: routes between levels, or waiting for copies.

    The three largest; those less than a tenth of the largest are left out.
    """
    reasons = [(route.saved_ps, *_way(task, route)) for route in routes_between(task, first, second)]
    reasons.append((first.waits_ps - second.waits_ps, "waiting for copies", ""))
    largest = sorted(reasons, key=lambda reason: -abs(reason[0]))[:3]
    changes = [
        f"{way} {'saves' if saved_ps > 0 else 'costs'} {seconds(abs(saved_ps) * PS)}{what}"
        for saved_ps, way, what in largest
        if saved_ps and 10 * abs(saved_ps) >= abs(largest[0][0])
    ]
    saved_ps = first.report.latency_ps - second.report.latency_ps
    total = f"{seconds(abs(saved_ps) * PS)} {'faster' if saved_ps > 0 else 'slower'}" if saved_ps else "no faster"
    return f"What decides: {', '.join(changes) or 'no change of level'}; {total} in all."


def _way(task: Task, route: Route) -> tuple[str, str]:
    """Return the levels of a route, and its first tensor."""
    source, target = (task.accelerator.levels[level].name for level in (route.source, route.target))
    names = [shortened(task.program.whole.tensor_name[tensor], 24) for tensor in route.tensors]
    return f"{source} → {target}", f" ({some_of(names, 1)})"
