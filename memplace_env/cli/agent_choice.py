"""The choice of an agent by its name in the registry, without loading any agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from memplace_agents.built_in_agents import AgentSpec


def known_agents(formulation: Formulation | None = None) -> dict[str, AgentSpec]:
    """Return every agent by name, those of third parties too; of one formulation if that is given."""
    from memplace_agents.registry import agent_specs

    return agent_specs(formulation)


def default_agents() -> str:
    """Return the default agent of each formulation, for help texts."""
    from memplace_agents.registry import DEFAULTS

    return ", ".join(f"{formulation}: {name}" for formulation, name in DEFAULTS.items())


def built_in_learners() -> list[str]:
    """Return the names of memplace's own learning agents, for help texts."""
    from memplace_agents.built_in_agents import BUILT_IN

    return [spec.name for spec in BUILT_IN if spec.learns]


def look_in_this_folder(name: str | None) -> None:
    """Let "module:Class" name a module of the current folder, which a console script does not look in."""
    if name and ":" in name and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def choose_agent(
    formulation: Formulation,
    name: str | None,
    learner_flags: Sequence[str] = (),
    *,
    tie_break: str | None = None,
    machine: Path | None = None,
) -> AgentSpec:
    """Return the agent with that name.

    Args:
        formulation: the formulation to play.
        name: None for the formulation's default agent.
        learner_flags: given flags that only learning agents take, but for the policy, which may be a prior.
        tie_break: value of --tie-break, None if it was not given.
        machine: value of --machine, None if it was not given.

    Raises:
        AgentError: if there is no such agent, it plays another formulation, lacks packages or takes no such flag.
    """
    from memplace_agents.registry import DEFAULTS, agent_spec

    look_in_this_folder(name)
    if name is None and formulation not in DEFAULTS:
        players = ", ".join(known_agents(formulation))
        raise AgentError(f"--formulation {formulation} has no default agent; pass --agent, one of: {players}.")
    spec = agent_spec(DEFAULTS[formulation] if name is None else name)
    check_plays(spec, formulation)
    if spec.missing_packages:
        raise AgentError(spec.missing_packages)
    for flag in learner_flags:
        takers = [
            other
            for other in known_agents(formulation).values()
            if other.learns or (flag == "--policy" and other.prior)
        ]
        if not (spec.learns or spec in takers):
            names = ", ".join(other.name for other in takers)
            raise AgentError(f"{spec.name} does not learn, so it takes no {flag}; these do: {names}.")
    if tie_break is not None and not spec.breaks_ties:
        others = ", ".join(other.name for other in known_agents(formulation).values() if other.breaks_ties)
        raise AgentError(f"{spec.name} breaks no ties, so it takes no --tie-break; these do: {others}.")
    if machine is not None and not spec.reuses_machine:
        others = ", ".join(other.name for other in known_agents(formulation).values() if other.reuses_machine)
        raise AgentError(f"{spec.name} fits no costs, so it takes no --machine; these do: {others}.")
    return spec


def choose_learner(name: str) -> AgentSpec:
    """Return the learning agent with that name.

    Raises:
        AgentError: if there is none, it learns nothing, or it lacks packages.
    """
    agents = known_agents()
    learners = {spec.name: spec for spec in agents.values() if spec.learns}
    if name in agents and name not in learners:
        raise AgentError(f"{name} does not learn, so there is nothing to train; agents that do: {', '.join(learners)}.")
    if name not in learners:
        raise AgentError(f"No learning agent is called {name!r}; {instead(name, learners)}")
    spec = learners[name]
    if spec.missing_packages:
        raise AgentError(spec.missing_packages)
    return spec


def check_plays(spec: AgentSpec, formulation: Formulation) -> None:
    """Refuse an agent of another formulation.

    Raises:
        AgentError: naming the agents that play this one.
    """
    if formulation not in spec.formulations:
        others, plays = ", ".join(known_agents(formulation)), " and ".join(spec.formulations)
        raise AgentError(f"{spec.name} plays --formulation {plays}; for {formulation} there are: {others}.")
