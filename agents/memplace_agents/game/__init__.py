"""Agents that plan games of mallocGame."""

from memplace_agents.game.game_local_search import GameLocalSearch
from memplace_agents.game.greedy_player import GreedyPlayer
from memplace_agents.game.portfolio import Portfolio

__all__ = ["GameLocalSearch", "GreedyPlayer", "Portfolio"]
