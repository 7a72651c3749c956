"""The compiler's rules as agents: the best plan of all, with which every search begins, and the plan of one."""

from __future__ import annotations

from memplace_agents.base import Agent
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import Evaluator
from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env.placement.compiler import HEURISTICS


class BestRule(Agent[Evaluator]):
    """Returns the best of the plans of all rules, see `cheap_plans`."""

    deterministic = True

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer the plan of each rule; nothing is random."""
        offer_cheap_plans(evaluator)


class CompilersRule(Agent[Evaluator]):
    """Returns the plan of one of the compiler's heuristics, without search; native, the baseline, by default.

    Args:
        rule: a name of `memplace_env.placement.compiler.HEURISTICS`.

    Raises:
        AgentError: if there is no rule of that name.
    """

    budgeted = False
    deterministic = True

    def __init__(self, rule: str = "native") -> None:
        if rule not in HEURISTICS:
            raise AgentError(f"The compiler has no rule {rule!r}; {instead(rule, HEURISTICS)}")
        self.rule = rule

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer the one plan; nothing is random."""
        evaluator.offer(HEURISTICS[self.rule](evaluator.env.task))
