"""The default agents: rules, then proofs, then searches."""

from memplace_agents.auto.auto_agent import Auto
from memplace_agents.auto.portfolio import Portfolio

__all__ = ["Auto", "Portfolio"]
