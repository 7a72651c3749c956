"""Searches without learning."""

from agents.heuristic.random_search import RandomSearch

__all__ = ["RandomSearch"]
