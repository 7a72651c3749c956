"""Greedy dynamic programming, EGRL's baseline."""

from agents.dp.greedy_dp import GreedyDP

__all__ = ["GreedyDP"]
