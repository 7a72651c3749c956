"""The agent: one plan, made as XLA would."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from agents.base import Callback, Solution
from agents.evaluator import evaluator_for
from agents.xla_msa.assign import assign
from agents.xla_msa.options import MsaOptions


class XlaMsa:
    """XLA's memory-space assignment: one pass of greedy placement, buffer by buffer, see `assign`.

    Solves environments of either formulation, one-shot and mallocGame, as long as the machine has two levels.

    Args:
        options: `MsaOptions.open_source()` if None.
    """

    name = "xla-msa"
    budgeted = False

    def __init__(self, options: MsaOptions | None = None) -> None:
        self.options = options or MsaOptions.open_source()

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """See `agents.base.Agent.solve`. One plan is made, in well under a second; nothing is random."""
        evaluator = evaluator_for(env, budget=budget, callback=callback, time_limit=time_limit)
        evaluator.offer(assign(evaluator.env.program, evaluator.env.accelerator, self.options))
        return evaluator.solution(self.name, seed)
