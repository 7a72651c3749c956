"""Agents: each solves an environment within a budget and returns a `Solution` with its plan."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agents.auto import Auto
    from agents.base import Agent
    from agents.dp import GreedyDP
    from agents.egrl import EGRL, EGRLConfig
    from agents.evaluator import GameEvaluator, MapEvaluator
    from agents.exact import Exact, ExactDynamic
    from agents.game import BeamSearch, GameLocalSearch, GreedyPlayer, Portfolio, SolverOrder
    from agents.heuristic import CompilersRule, DensityGreedy, LocalSearch, RandomSearch
    from agents.muzero import MuZero, MuZeroConfig
    from agents.ppo import A2CAgent, MaskablePPOAgent, PPOAgent
    from agents.registry import agent_specs, make_agent
    from agents.solution import Outcome, Progress, Solution, Verdict
    from agents.xla_msa import XlaAutotune, XlaMsa

_HOME = {
    "A2CAgent": "ppo",
    "Agent": "base",
    "Auto": "auto",
    "BeamSearch": "game",
    "CompilersRule": "heuristic",
    "DensityGreedy": "heuristic",
    "EGRL": "egrl",
    "EGRLConfig": "egrl",
    "Exact": "exact",
    "ExactDynamic": "exact",
    "GameEvaluator": "evaluator",
    "GameLocalSearch": "game",
    "GreedyDP": "dp",
    "GreedyPlayer": "game",
    "LocalSearch": "heuristic",
    "MapEvaluator": "evaluator",
    "MaskablePPOAgent": "ppo",
    "MuZero": "muzero",
    "MuZeroConfig": "muzero",
    "Outcome": "solution",
    "PPOAgent": "ppo",
    "Portfolio": "game",
    "Progress": "solution",
    "RandomSearch": "heuristic",
    "Solution": "solution",
    "SolverOrder": "game",
    "Verdict": "solution",
    "XlaAutotune": "xla_msa",
    "XlaMsa": "xla_msa",
    "agent_specs": "registry",
    "make_agent": "registry",
}

__all__ = [
    "EGRL",
    "A2CAgent",
    "Agent",
    "Auto",
    "BeamSearch",
    "CompilersRule",
    "DensityGreedy",
    "EGRLConfig",
    "Exact",
    "ExactDynamic",
    "GameEvaluator",
    "GameLocalSearch",
    "GreedyDP",
    "GreedyPlayer",
    "LocalSearch",
    "MapEvaluator",
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
    "Verdict",
    "XlaAutotune",
    "XlaMsa",
    "agent_specs",
    "make_agent",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
