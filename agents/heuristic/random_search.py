"""Uniformly random maps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from agents.base import Callback, Solution
from agents.evaluator import Evaluator


class RandomSearch:
    """Draws every entry of every map uniformly and keeps the fastest compiled plan."""

    name = "random"
    budgeted = True

    def __init__(self, batch: int = 256) -> None:
        self.batch = batch

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """See `agents.base.Agent.solve`."""
        evaluator = Evaluator(env, budget=budget, callback=callback, time_limit=time_limit)
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        while evaluator.remaining > 0:
            evaluator(rng.integers(0, problem.accelerator.num_levels, (self.batch, problem.map_size)))
        return evaluator.solution(self.name, seed)
