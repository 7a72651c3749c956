"""Agents of the registry in a size that is quick."""

from memplace_agents import EGRL, Agent, MuZero, make_agent
from tests.agents import egrl, muzero


def make_quick(name: str) -> Agent:
    """The agent; EGRL and MuZero with small networks and few members and games."""
    if name == "egrl":
        return EGRL(egrl.small(population=4, hidden=4, depth=1, batch=4))
    return MuZero(muzero.small()) if name == "muzero" else make_agent(name)
