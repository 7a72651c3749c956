"""A player that always takes the best immediate reward."""

from __future__ import annotations

from memplace_agents.base import Agent
from memplace_agents.search.evaluator import GameEvaluator


class GreedyPlayer(Agent[GameEvaluator]):
    """Plays the action that lowers the estimated latency most; ties go to NoCopy, then Copy, then Drop."""

    budgeted = False
    deterministic = True

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Play one game, in milliseconds; nothing is random."""
        states = evaluator.env.problem.new_states(1)
        evaluator.env.problem.finish_greedily(states)
        evaluator.offer_states(states)
