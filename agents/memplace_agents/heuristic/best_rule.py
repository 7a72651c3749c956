"""The best plan of all rules, without a search: the baseline that every search begins with."""

from __future__ import annotations

from memplace_agents.base import Agent
from memplace_agents.cheap_plans import offer_cheap_plans
from memplace_agents.evaluator import Evaluator


class BestRule(Agent[Evaluator]):
    """Returns the best of the plans of all rules, see `cheap_plans`."""

    deterministic = True

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer the plan of each rule; nothing is random."""
        offer_cheap_plans(evaluator)
