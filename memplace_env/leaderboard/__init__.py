"""The leaderboard: which environments are trained on, and which are kept for the test."""

from memplace_env.leaderboard.splits import SPLITS, chip_split, group_split, suites

__all__ = ["SPLITS", "chip_split", "group_split", "suites"]
