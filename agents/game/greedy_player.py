"""One game, always with the best immediate reward."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.base import Callback, Solution
from agents.evaluator import GameEvaluator


class GreedyPlayer:
    """Plays the action that lowers the estimated latency most; ties go to NoCopy, then Copy, then Drop."""

    name = "greedy-player"
    budgeted = False

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """See `agents.base.Agent.solve`. One game is played, in milliseconds; nothing is random."""
        evaluator = GameEvaluator(env, budget=budget, callback=callback, time_limit=time_limit)
        rows = evaluator.env.problem.new_rows(1)
        evaluator.env.problem.finish_greedily(rows)
        evaluator.offer_rows(rows)
        return evaluator.solution(self.name, seed)
