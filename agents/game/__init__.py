"""Planners for mallocGame."""

from agents.game.beam_search import BeamSearch
from agents.game.greedy_player import GreedyPlayer
from agents.game.local_search import GameLocalSearch
from agents.game.portfolio import Portfolio
from agents.game.solver_order import SolverOrder

__all__ = ["BeamSearch", "GameLocalSearch", "GreedyPlayer", "Portfolio", "SolverOrder"]
