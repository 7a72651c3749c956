"""All agents, those of third parties too, by name and formulation; none is loaded before it is made.

A third party's agent is an `Agent` class, or anything with its attributes, under the entry-point group
`memplace.agents`; the first line of its docstring is its summary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memplace_agents.built_in_agents import BOTH, BUILT_IN, AgentSpec, load
from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env._lib.plugins import AGENTS, installed
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from memplace_agents.search.agent import Agent

DEFAULTS = {
    Formulation.ONE_SHOT: "auto",
    Formulation.GAME: "portfolio",
    Formulation.DYNAMIC: "exact-dynamic",
}
"""Default agent of each formulation; these need no optional packages."""


def agent_specs(formulation: Formulation | None = None) -> dict[str, AgentSpec]:
    """Return every agent by name, those of third parties last; only those of a formulation if one is given."""
    specs = {spec.name: spec for spec in BUILT_IN}
    specs |= {name: _third_party(name, point.value) for name, point in installed(AGENTS).items() if name not in specs}
    return {name: spec for name, spec in specs.items() if formulation is None or formulation in spec.formulations}


def agent_spec(name: str) -> AgentSpec:
    """Return the description of the agent with that name, or of the class that "module:Class" names.

    Raises:
        AgentError: if there is no such agent.
    """
    if ":" in name:
        return _third_party(name, name)
    specs = agent_specs()
    if name not in specs:
        raise AgentError(f"No agent is called {name!r}; {instead(name, specs)}")
    return specs[name]


def make_agent(name: str, **options: Any) -> Agent[Any]:
    """Return a new agent with that name and those options.

    Raises:
        AgentError: if there is no such agent, it cannot be loaded, or an option is invalid.
    """
    agent: Agent[Any] = agent_spec(name).make(**options)
    return agent


def _third_party(name: str, entry_point: str) -> AgentSpec:
    """Return the description of an installed class; the default of its formulations is one-shot and game."""
    try:
        kind = load(entry_point)
        formulations = tuple(Formulation(value) for value in getattr(kind, "formulations", BOTH))
    except Exception as error:  # a third party's module may raise anything; the other agents stay listed
        return AgentSpec(name, entry_point, BOTH, f"cannot be loaded: {error}")
    lines = (kind.__doc__ or "").strip().splitlines()
    return AgentSpec(
        name, entry_point, formulations, lines[0] if lines else entry_point, learns=bool(getattr(kind, "learns", False))
    )
