"""The exact agent: proven optima, or a proven bound and how far the plan is from it."""

from agents.exact.agent import Exact, ExactDynamic

__all__ = ["Exact", "ExactDynamic"]
