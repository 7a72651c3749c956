"""Uniformly random assignments."""

from __future__ import annotations

import numpy as np

from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import OneShotEvaluator

BATCH = 256
"""Assignments that are drawn at once; our choice."""


class RandomSearch(Agent[OneShotEvaluator]):
    """Draws every entry of every assignment uniformly and keeps the fastest compiled plan."""

    def run(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Draw until the budget is spent."""
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        while evaluator.remaining > 0:
            evaluator(rng.integers(0, problem.accelerator.num_levels, (BATCH, problem.num_decisions)))
