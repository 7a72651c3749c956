"""The two kinds of environments, and what differs between them on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from memplace_env.cli.console import note
from memplace_env.errors import AgentError
from memplace_env.registration import GAME, ONE_SHOT

if TYPE_CHECKING:
    from agents import Agent


class Formulation(StrEnum):
    """How placing is posed as a problem; the value is how the command line calls it."""

    ONE_SHOT = "one-shot"
    GAME = "game"


class Traits(NamedTuple):
    """What belongs to a formulation.

    Attributes:
        env_id: its generic environment.
        settings: of the models that have an environment of their own.
        accelerator: the chip unless another is asked for, and that of those environments.
        agent: who searches unless another is asked for.
        baseline: what speed-ups are against.
    """

    env_id: str
    settings: Mapping[str, Mapping[str, Any]]
    accelerator: str
    agent: str
    baseline: str


TRAITS = {
    Formulation.ONE_SHOT: Traits("MemPlace-v0", ONE_SHOT, "nnp-i", "egrl", "native"),
    Formulation.GAME: Traits("MallocGame-v0", GAME, "tpu-v4i", "portfolio", "all in backing memory"),
}


FALLBACK = "exact"
"""Who searches if nobody was asked for and the default agent's packages are missing."""


def known_agents() -> dict[Formulation, dict[str, str]]:
    """Name and one line of each agent that plays a formulation."""
    from agents import AGENTS, GAME_AGENTS

    tables = {Formulation.ONE_SHOT: AGENTS, Formulation.GAME: GAME_AGENTS}
    return {formulation: {name: line for name, (_, line) in table.items()} for formulation, table in tables.items()}


def check_plays(formulation: Formulation, name: str | None) -> None:
    """Refuse agents of the other formulation.

    Raises:
        AgentError: saying which agents play this one.
    """
    agents = known_agents()
    for other in Formulation:
        if other is not formulation and name in agents[other] and name not in agents[formulation]:
            there = ", ".join(agents[formulation])
            raise AgentError(f"{name} plays --formulation {other.value}; for {formulation.value} there are: {there}.")


def agent_name(formulation: Formulation, name: str | None, flags: Sequence[str] = ()) -> str:
    """Who searches, found out without loading any agent.

    Args:
        formulation: what is to be played.
        name: who was asked for; None for the formulation's own agent, or `FALLBACK` if that one lacks packages.
        flags: names of the flags given that only learning agents take.

    Raises:
        AgentError: if there is no such agent, it plays the other formulation, lacks packages or takes no such flag.
    """
    from agents import make_agent
    from memplace_env.cli.learners import LEARNERS, to_install

    check_plays(formulation, name)
    lacking = to_install(name or TRAITS[formulation].agent)
    if lacking and (name or flags):
        raise AgentError(lacking)
    if lacking:
        note(f"{lacking}; until then {FALLBACK} searches.")
        return FALLBACK
    name = name or TRAITS[formulation].agent
    known = known_agents()[formulation]
    if name not in known:
        make_agent(name)  # says what there is instead
    if flags and name not in LEARNERS:
        able = ", ".join(other for other in LEARNERS if other in known)
        raise AgentError(f"{name} does not learn, so it takes no {flags[0]}; for that there are: {able}.")
    return name


def agent_for(
    formulation: Formulation,
    name: str | None,
    *,
    config: str | None = None,
    settings: Sequence[str] = (),
    policy: Path | None = None,
) -> Agent:
    """The agent with that name, or the formulation's own; the options are those of `learners.make_learner`.

    Raises:
        AgentError: as `agent_name`, or if an option makes no sense.
    """
    from agents import make_agent
    from memplace_env.cli.learners import LEARNERS, learner_flags, make_learner

    name = agent_name(formulation, name, learner_flags(config, settings, policy))
    return make_learner(name, config, settings, policy) if name in LEARNERS else make_agent(name)
