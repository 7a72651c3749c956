"""The leaderboard: suites, submissions that are replayed, scores, and the page that shows them."""

from memplace_leaderboard.suite import Suite, load_suite, suite_names

__all__ = ["Suite", "load_suite", "suite_names"]
