"""Searches without learning."""

from agents.heuristic.local_search import LocalSearch
from agents.heuristic.random_search import RandomSearch

__all__ = ["LocalSearch", "RandomSearch"]
