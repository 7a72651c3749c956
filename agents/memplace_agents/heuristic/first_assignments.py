"""Assignments that are known without a search; see `memplace_agents.cheap_plans`."""

from memplace_agents.cheap_plans import first_assignments

__all__ = ["first_assignments"]
