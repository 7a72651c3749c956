"""Why an op hurts, or takes another time than under native, in a few words."""

from __future__ import annotations

from memplace_env.analysis.differences import Difference
from memplace_env.analysis.hurts import Hurt
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
