"""Planners for mallocGame that do not learn."""

from agents.game.beam_search import BeamSearch
from agents.game.greedy_player import GreedyPlayer
from agents.game.local_search import GameLocalSearch
from agents.game.solver_order import SolverOrder

__all__ = ["BeamSearch", "GameLocalSearch", "GreedyPlayer", "SolverOrder"]
