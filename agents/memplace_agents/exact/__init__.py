"""The exact agents: proven optima, or plans with a proven bound."""

from memplace_agents.exact.exact_agent import Exact, ExactDynamic

__all__ = ["Exact", "ExactDynamic"]
