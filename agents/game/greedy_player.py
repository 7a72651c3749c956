"""One game, always with the best immediate reward."""

from __future__ import annotations

from agents.base import Agent
from agents.evaluator import GameEvaluator
from memplace_env.registration import Formulation


class GreedyPlayer(Agent[GameEvaluator]):
    """Plays the action that lowers the estimated latency most; ties go to NoCopy, then Copy, then Drop."""

    name = "greedy-player"
    formulations = (Formulation.GAME,)
    budgeted = False
    deterministic = True

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Play one game, in milliseconds; nothing is random."""
        states = evaluator.env.problem.new_states(1)
        evaluator.env.problem.finish_greedily(states)
        evaluator.offer_states(states)
