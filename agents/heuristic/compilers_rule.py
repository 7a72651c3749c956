"""The compiler's own plans as an agent, so that they stand beside every other."""

from __future__ import annotations

from agents.base import Agent
from agents.evaluator import Evaluator
from memplace_env.compiler import HEURISTICS
from memplace_env.errors import AgentError
from memplace_env.hints import instead
from memplace_env.registration import Formulation


class CompilersRule(Agent[Evaluator]):
    """One plan by a rule of the compiler, without search; by default native's, the baseline of maps.

    Args:
        rule: a name of `memplace_env.compiler.HEURISTICS`.

    Raises:
        AgentError: if there is no such rule.
    """

    name = "native"
    formulations = (Formulation.ONE_SHOT, Formulation.GAME)
    budgeted = False
    deterministic = True

    def __init__(self, rule: str = "native") -> None:
        if rule not in HEURISTICS:
            raise AgentError(f"The compiler has no rule {rule!r}; {instead(rule, HEURISTICS)}")
        self.rule = rule

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Nothing is random, so the seed changes nothing."""
        evaluator.offer(HEURISTICS[self.rule](evaluator.env.task))
