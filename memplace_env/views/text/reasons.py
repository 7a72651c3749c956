"""Why an op hurts, or takes another time than under another plan, and why a plan is faster, in a few words."""

from __future__ import annotations

from memplace_env.analysis.differences import Difference
from memplace_env.analysis.hurts import Hurt
from memplace_env.analysis.judged import Judged
from memplace_env.analysis.routes import Route, routes_between
from memplace_env.task import Task
from memplace_env.units import PS
from memplace_env.views.text.quantities import seconds, shortened, size, some_of


def why_it_hurts(hurt: Hurt) -> str:
    """What the op moves at the level that it waits for, and which copies it waits for."""
    parts = []
    if hurt.level is not None:
        moved = [f"{shortened(name, 36)} {size(bytes_)}" for name, bytes_ in hurt.tensors]
        parts.append(f"{hurt.level} moves {some_of(moved, 3)}")
    if hurt.stall_ps:
        awaited = some_of([shortened(name, 36) for name in hurt.waits_for], 3)
        parts.append(f"waits {seconds(hurt.stall_ps * PS)} for {awaited or 'a copy'}")
    return "; ".join(parts) or "fixed cost of an op"


def why_it_differs(difference: Difference) -> str:
    """What went from which level to which, and how much longer or shorter the op waits for copies."""
    routes: dict[tuple[str, str], list[str]] = {}
    for move in difference.moves:
        text = f"{shortened(move.tensor, 28)} {size(move.bytes)}"
        routes.setdefault((move.source, move.target), []).append(text)
    parts = [f"{source} → {target}: {some_of(texts, 2)}" for (source, target), texts in routes.items()]
    if difference.waits_ps:
        wait = seconds(abs(difference.waits_ps) * PS)
        parts.append(f"waits {wait} {'more' if difference.waits_ps > 0 else 'less'}")
    return "; ".join(parts)


def what_decides(task: Task, first: Judged, second: Judged) -> str:
    """What the second plan saves and loses most time by: ways of tensors from level to level, or waiting for copies.

    The three largest; those less than a tenth of the largest are left out.
    """
    reasons = [(route.saved_ps, *_way(task, route)) for route in routes_between(task, first, second)]
    reasons.append((first.waits_ps - second.waits_ps, "waiting for copies", ""))
    largest = sorted(reasons, key=lambda reason: -abs(reason[0]))[:3]
    told = [
        f"{way} {'saves' if saved_ps > 0 else 'costs'} {seconds(abs(saved_ps) * PS)}{what}"
        for saved_ps, way, what in largest
        if saved_ps and 10 * abs(saved_ps) >= abs(largest[0][0])
    ]
    saved_ps = first.report.latency_ps - second.report.latency_ps
    total = f"{seconds(abs(saved_ps) * PS)} {'faster' if saved_ps > 0 else 'slower'}" if saved_ps else "no faster"
    return f"What decides: {', '.join(told) or 'no change of level'}; {total} in all."


def _way(task: Task, route: Route) -> tuple[str, str]:
    """From where to where, and what goes there."""
    source, target = (task.accelerator.levels[level].name for level in (route.source, route.target))
    names = [shortened(task.program.tensor_name[tensor], 24) for tensor in route.tensors]
    return f"{source} → {target}", f" ({some_of(names, 1)})"
