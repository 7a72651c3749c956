"""Agents: each solves an environment within a budget and returns a `Solution` with its plan."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.base import Agent, Outcome, Progress, Solution
    from agents.dp import GreedyDP
    from agents.exact import Exact
    from agents.heuristic import LocalSearch, RandomSearch

__all__ = [
    "AGENTS",
    "Agent",
    "Exact",
    "GreedyDP",
    "LocalSearch",
    "Outcome",
    "Progress",
    "RandomSearch",
    "Solution",
    "make_agent",
]

AGENTS = {
    "random": ("RandomSearch", "uniformly random maps"),
    "greedy-dp": ("GreedyDP", "EGRL's baseline: op by op, all choices tried, the rest frozen"),
    "local-search": ("LocalSearch", "simulated annealing from the compiler's own map"),
    "exact": ("Exact", "mixed-integer linear program: the best plan and a proven bound"),
}
"""Name on the command line -> class of this package, one line about it."""

_HOME = {
    "Agent": "agents.base",
    "Outcome": "agents.base",
    "Progress": "agents.base",
    "Solution": "agents.base",
    "RandomSearch": "agents.heuristic",
    "LocalSearch": "agents.heuristic",
    "GreedyDP": "agents.dp",
    "Exact": "agents.exact",
}


def make_agent(name: str, **options: Any) -> Agent:
    """The agent with that name, made with those options.

    Raises:
        AgentError: if there is none.
    """
    from memplace_env.errors import AgentError

    if name not in AGENTS:
        close = get_close_matches(name, AGENTS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(AGENTS)}."
        raise AgentError(f"No agent is called {name!r}; {hint}")
    agent: Agent = __getattr__(AGENTS[name][0])(**options)
    return agent


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
