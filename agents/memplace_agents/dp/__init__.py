"""Greedy dynamic programming, the baseline of EGRL."""

from memplace_agents.dp.greedy_dp import GreedyDP

__all__ = ["GreedyDP"]
