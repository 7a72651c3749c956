"""Without learning: the compiler's rules, density-greedy and plain searches."""

from agents.heuristic.compilers_rule import CompilersRule
from agents.heuristic.density_greedy import DensityGreedy
from agents.heuristic.local_search import LocalSearch
from agents.heuristic.random_search import RandomSearch

__all__ = ["CompilersRule", "DensityGreedy", "LocalSearch", "RandomSearch"]
