"""Which agent searches: found out from the registry of agents, without loading any."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from memplace_env.errors import AgentError
from memplace_env.hints import instead
from memplace_env.registration import Formulation

if TYPE_CHECKING:
    from agents.registry import AgentSpec


def known_agents(formulation: Formulation | None = None) -> dict[str, AgentSpec]:
    """Every agent by name, those of third parties too; of one formulation if that is given.

    Raises:
        AgentError: if memplace's own agents cannot be found.
    """
    _require_own_agents()
    from agents.registry import agent_specs

    return agent_specs(formulation)


def default_agents() -> str | None:
    """Who searches in each formulation unless another agent is asked for, as help texts say it."""
    try:
        _require_own_agents()
    except AgentError:
        return None
    from agents.registry import DEFAULTS

    return ", ".join(f"{formulation}: {name}" for formulation, name in DEFAULTS.items())


def built_in_learners() -> list[str]:
    """Names of memplace's own learning agents, for help texts."""
    try:
        _require_own_agents()
    except AgentError:
        return []
    from agents.registry import BUILT_IN

    return [spec.name for spec in BUILT_IN if spec.learns]


def choose_agent(formulation: Formulation, name: str | None, learner_flags: Sequence[str] = ()) -> AgentSpec:
    """The agent with that name.

    Args:
        formulation: what is to be played.
        name: None for the formulation's default agent.
        learner_flags: the flags given that only learning agents take.

    Raises:
        AgentError: if there is no such agent, it plays another formulation, lacks packages or takes no such flag.
    """
    _require_own_agents()
    from agents.registry import DEFAULTS, agent_spec

    spec = agent_spec(DEFAULTS[formulation] if name is None else name)
    check_plays(spec, formulation)
    if spec.lacking:
        raise AgentError(spec.lacking)
    if learner_flags and not spec.learns:
        able = ", ".join(other.name for other in known_agents(formulation).values() if other.learns)
        raise AgentError(f"{spec.name} does not learn, so it takes no {learner_flags[0]}; for that there are: {able}.")
    return spec


def choose_learner(name: str) -> AgentSpec:
    """The learning agent with that name.

    Raises:
        AgentError: if there is none, it learns nothing, or it lacks packages.
    """
    known = known_agents()
    learners = {spec.name: spec for spec in known.values() if spec.learns}
    able = ", ".join(learners)
    if name in known and name not in learners:
        raise AgentError(f"{name} does not learn, so there is nothing to train; agents that do: {able}.")
    if name not in learners:
        raise AgentError(f"No learning agent is called {name!r}; {instead(name, learners)}")
    spec = learners[name]
    if spec.lacking:
        raise AgentError(spec.lacking)
    return spec


def check_plays(spec: AgentSpec, formulation: Formulation) -> None:
    """Refuse an agent of another formulation.

    Raises:
        AgentError: saying which agents play this one.
    """
    if formulation not in spec.formulations:
        there, plays = ", ".join(known_agents(formulation)), " and ".join(spec.formulations)
        raise AgentError(f"{spec.name} plays --formulation {plays}; for {formulation} there are: {there}.")


def _require_own_agents() -> None:
    """Refuse to take another package for memplace's `agents`; it is not even imported.

    Raises:
        AgentError: saying where that other package is, or that there is none.
    """
    found = find_spec("agents")
    if found is None:
        raise AgentError("memplace's package 'agents' is not installed; install memplace anew.")
    folders = [Path(place) for place in found.submodule_search_locations or ()]
    if not any((folder / "registry.py").is_file() for folder in folders):
        place = folders[0] if folders else found.origin
        raise AgentError(
            f"Another package called 'agents', in {place}, hides memplace's; uninstall it or take it off PYTHONPATH."
        )
