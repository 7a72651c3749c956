"""Without learning: density-greedy and plain searches."""

from agents.heuristic.density_greedy import DensityGreedy
from agents.heuristic.local_search import LocalSearch
from agents.heuristic.random_search import RandomSearch

__all__ = ["DensityGreedy", "LocalSearch", "RandomSearch"]
