"""The cross-entropy method: a distribution over plans, learned from the best of what it samples."""

from memplace_agents.cross_entropy.cross_entropy import CrossEntropy

__all__ = ["CrossEntropy"]
