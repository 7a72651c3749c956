"""The two kinds of environments, and what differs between them on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Formulation.ONE_SHOT: Traits("MemPlace-v0", ONE_SHOT, "nnp-i", "exact", "native"),
    Formulation.GAME: Traits("MallocGame-v0", GAME, "tpu-v4i", "game-local-search", "all in backing memory"),
}


def known_agents() -> dict[Formulation, dict[str, str]]:
    """Name and one line of each agent that plays a formulation."""
    from agents import AGENTS, GAME_AGENTS

    tables = {Formulation.ONE_SHOT: AGENTS, Formulation.GAME: GAME_AGENTS}
    return {formulation: {name: line for name, (_, line) in table.items()} for formulation, table in tables.items()}


def agent_for(formulation: Formulation, name: str | None) -> Agent:
    """The agent with that name, or the formulation's own.

    Raises:
        AgentError: if there is none, or it plays the other formulation.
    """
    from agents import make_agent

    agents = known_agents()
    for other in Formulation:
        if other is not formulation and name in agents[other] and name not in agents[formulation]:
            there = ", ".join(agents[formulation])
            raise AgentError(f"{name} plays --formulation {other.value}; for {formulation.value} there are: {there}.")
    return make_agent(name or TRAITS[formulation].agent)
