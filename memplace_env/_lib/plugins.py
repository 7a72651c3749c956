"""Plug-ins of third parties, found by the names of their entry points."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.hints import instead

SIMULATORS, COST_MODELS, AGENTS = "memplace.simulators", "memplace.cost_models", "memplace.agents"
COMMANDS, SUITES, PLANNERS = "memplace.commands", "memplace.suites", "memplace.planners"
"""Groups of entry points. A command is a Typer application; of suites, a function that returns ids by name. Of
planners, backends call one, `best-plan`: a function of a task, an agent's name and seconds that returns a plan."""


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, in alphabetical order."""
    return {point.name: point for point in sorted(entry_points(group=group), key=lambda point: point.name)}


def load_plugin(group: str, name: str, what: str, built_in: Iterable[str], error: type[MemPlaceError]) -> Any:
    """Return the installed plug-in with that name: the object of its entry point, instantiated if it is a class.

    Args:
        group: group of the entry point.
        name: name of the entry point.
        what: its kind in messages, such as "cost model".
        built_in: names that need no plug-in, for messages.
        error: the exception to raise.

    Raises:
        MemPlaceError: of the given kind, if nothing of that name is installed or it cannot be loaded; with the message
            of the plug-in itself if it raises one.
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
