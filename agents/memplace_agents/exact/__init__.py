"""The exact agents: proven optima, or plans with a proven bound."""

from memplace_agents.exact.exact_agent import Exact, ExactDynamic, break_ties

__all__ = ["Exact", "ExactDynamic", "break_ties"]
