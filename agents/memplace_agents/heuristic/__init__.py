"""Agents without learning: the compiler's rules, density-greedy and plain searches."""

from memplace_agents.heuristic.best_rule import BestRule
from memplace_agents.heuristic.compilers_rule import CompilersRule
from memplace_agents.heuristic.density_greedy import DensityGreedy
from memplace_agents.heuristic.local_search import LocalSearch
from memplace_agents.heuristic.random_search import RandomSearch

__all__ = ["BestRule", "CompilersRule", "DensityGreedy", "LocalSearch", "RandomSearch"]
