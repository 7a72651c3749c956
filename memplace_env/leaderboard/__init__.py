"""The leaderboard: suites, submissions that are replayed, scores, and the page that shows them."""

from memplace_env.envs.splits import SPLITS, chip_split, group_split
from memplace_env.leaderboard.suite import Suite, load_suite, suite_names, suites

__all__ = ["SPLITS", "Suite", "chip_split", "group_split", "load_suite", "suite_names", "suites"]
