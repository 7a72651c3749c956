"""Third parties' parts, found by the names of their entry points."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from memplace_env.errors import MemPlaceError
from memplace_env.hints import instead

SIMULATORS, COST_MODELS, AGENTS = "memplace.simulators", "memplace.cost_models", "memplace.agents"
"""Groups of entry points."""


def installed(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name, in alphabetical order."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load_plugin(group: str, name: str, what: str, built_in: Iterable[str], error: type[MemPlaceError]) -> Any:
    """An instance of the installed part with that name: what its entry point names, called if it is a class.

    Args:
        group: of the entry point.
        name: of the entry point.
        what: what such a part is called in messages, such as "cost model".
        built_in: names that memplace has itself, for messages.
        error: what to raise.

    Raises:
        MemPlaceError: of the given kind, if nothing of that name is installed or it cannot be loaded; in the words of
            the part itself if it raises one.
    """
    points = installed(group)
    if name not in points:
        raise error(f"No {what} is called {name!r}; {instead(name, [*built_in, *points])}")
    try:
        part = points[name].load()
        return part() if isinstance(part, type) else part
    except MemPlaceError as failure:
        raise error(str(failure)) from failure
    except Exception as failure:  # whatever a third party's module may raise
        raise error(f"The {what} {name!r} cannot be loaded ({failure}); install its package anew.") from failure
