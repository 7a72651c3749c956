"""Agents: each solves an environment within a budget and returns a `Solution` with its plan."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.base import Agent, Outcome, Progress, Solution
    from agents.dp import GreedyDP
    from agents.egrl import EGRL, EGRLConfig
    from agents.exact import Exact
    from agents.game import BeamSearch, GameLocalSearch, GreedyPlayer, Portfolio, SolverOrder
    from agents.heuristic import LocalSearch, RandomSearch
    from agents.muzero import MuZero, MuZeroConfig
    from agents.ppo import A2CAgent, MaskablePPOAgent, PPOAgent
    from agents.xla_msa import XlaMsa

__all__ = [
    "AGENTS",
    "EGRL",
    "GAME_AGENTS",
    "A2CAgent",
    "Agent",
    "BeamSearch",
    "EGRLConfig",
    "Exact",
    "GameLocalSearch",
    "GreedyDP",
    "GreedyPlayer",
    "LocalSearch",
    "MaskablePPOAgent",
    "MuZero",
    "MuZeroConfig",
    "Outcome",
    "PPOAgent",
    "Portfolio",
    "Progress",
    "RandomSearch",
    "Solution",
    "SolverOrder",
    "XlaMsa",
    "make_agent",
]

_REINFORCEMENT = {
    "ppo": ("PPOAgent", "Stable-Baselines3's PPO with a network that suits the observation"),
    "maskable-ppo": ("MaskablePPOAgent", "sb3-contrib's PPO, which plays legal actions only"),
    "a2c": ("A2CAgent", "Stable-Baselines3's A2C, to see that any algorithm plugs in"),
}

AGENTS = {
    "egrl": ("EGRL", "evolution of graph policies with policy gradients, and annealing of the best map"),
    "random": ("RandomSearch", "uniformly random maps"),
    "greedy-dp": ("GreedyDP", "EGRL's baseline: op by op, all choices tried, the rest frozen"),
    "local-search": ("LocalSearch", "simulated annealing from the compiler's own map"),
    "exact": ("Exact", "mixed-integer linear program: the best plan and a proven bound"),
    **_REINFORCEMENT,
}
"""Agents for one-shot environments: name on the command line -> class of this package, one line about it."""

GAME_AGENTS = {
    "portfolio": (
        "Portfolio",
        "xla-msa with both option sets, then the searches: never worse than XLA, whatever stops it",
    ),
    "muzero": ("MuZero", "games planned by tree search, from which a network learns, after mallocMuZero"),
    "xla-msa": ("XlaMsa", "XLA's memory-space assignment, the default that mallocMuZero is compared with"),
    "greedy-player": ("GreedyPlayer", "one game, always the best immediate reward"),
    "beam-search": ("BeamSearch", "partial games side by side, judged by how the best known game would finish them"),
    "game-local-search": ("GameLocalSearch", "simulated annealing from the greedy player's game"),
    "solver-order": ("SolverOrder", "hill climbing over the order in which xla-msa serves the buffers"),
    **_REINFORCEMENT,
}
"""Agents for mallocGame, in the same form."""

_HOME = {
    "Agent": "agents.base",
    "Outcome": "agents.base",
    "Progress": "agents.base",
    "Solution": "agents.base",
    "RandomSearch": "agents.heuristic",
    "LocalSearch": "agents.heuristic",
    "GreedyDP": "agents.dp",
    "EGRL": "agents.egrl",
    "EGRLConfig": "agents.egrl",
    "PPOAgent": "agents.ppo",
    "MaskablePPOAgent": "agents.ppo",
    "A2CAgent": "agents.ppo",
    "Exact": "agents.exact",
    "XlaMsa": "agents.xla_msa",
    "GreedyPlayer": "agents.game",
    "BeamSearch": "agents.game",
    "GameLocalSearch": "agents.game",
    "SolverOrder": "agents.game",
    "Portfolio": "agents.game",
    "MuZero": "agents.muzero",
    "MuZeroConfig": "agents.muzero",
}


def make_agent(name: str, **options: Any) -> Agent:
    """The agent with that name, made with those options.

    Raises:
        AgentError: if there is none.
    """
    from memplace_env.errors import AgentError

    known = AGENTS | GAME_AGENTS
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}."
        raise AgentError(f"No agent is called {name!r}; {hint}")
    agent: Agent = __getattr__(known[name][0])(**options)
    return agent


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
