"""The default of one-shot environments: what is cheap, what proves, what searches."""

from agents.auto.agent import Auto

__all__ = ["Auto"]
