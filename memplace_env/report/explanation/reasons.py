"""Reasons in a few words: of a bottleneck, of an op's different times in two plans, of a faster plan."""

from __future__ import annotations

from memplace_env._lib.units import PS
from memplace_env.placement.task import Task
from memplace_env.report.explanation.bottlenecks import Bottleneck
from memplace_env.report.explanation.differences import Difference
from memplace_env.report.explanation.routes import Route, routes_between
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.quantities import seconds, shortened, size, some_of


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
