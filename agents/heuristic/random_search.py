"""Uniformly random maps."""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.evaluator import MapEvaluator
from memplace_env.registration import Formulation


class RandomSearch(Agent[MapEvaluator]):
    """Draws every entry of every map uniformly and keeps the fastest compiled plan."""

    name = "random"
    formulations = (Formulation.ONE_SHOT,)

    def __init__(self, batch: int = 256) -> None:
        self.batch = batch

    def run(self, evaluator: MapEvaluator, seed: int) -> None:
        """Draw until the budget is spent."""
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        while evaluator.remaining > 0:
            evaluator(rng.integers(0, problem.accelerator.num_levels, (self.batch, problem.map_size)))
