"""The default agent of one-shot environments."""

from memplace_agents.auto.auto_agent import Auto

__all__ = ["Auto"]
