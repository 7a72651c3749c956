"""Density-greedy as an agent: no search, milliseconds; the baseline that every other agent has to beat."""

from __future__ import annotations

import numpy as np

from memplace_agents.base import Agent
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.density import VARIANTS, all_density_levels
from memplace_env.placement.compiler.placing_order import schedule_of


class DensityGreedy(Agent[OneShotEvaluator]):
    """Fills each level by time saved for the bytes held and for how long, in up to ten variants; keeps the best plan.

    The rule is in `memplace_env.placement.compiler.density`. It decides on tensors, not on ops, so that its plans may
    be finer than any assignment of the environment. It reads the cost arrays even if the simulator is a black box.

    Args:
        variants: number of its scoring rules to try, from the best one on, 1 to 10.

    Raises:
        AgentError: if `variants` is out of range.
    """

    deterministic = True

    def __init__(self, variants: int = len(VARIANTS)) -> None:
        if not 1 <= variants <= len(VARIANTS):
            raise AgentError(f"variants={variants} is out of range; pass 1 to {len(VARIANTS)}.")
        self.variants = variants

    def run(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Offer the plans of the variants, or only the fastest where the costs tell which it is; nothing is random."""
        task = evaluator.env.task
        variants = all_density_levels(task)[: min(self.variants, evaluator.remaining)]
        if task.is_black_box or evaluator.noisy:
            for levels in variants:
                evaluator.offer(place_levels(task, levels).plan)
            return
        if len(variants):
            schedule = schedule_of(task, "weights-before-results")
            distinct = np.stack(list({levels.tobytes(): levels for levels in variants}.values()))
            found = evaluate_assignments(schedule, distinct, np.arange(task.program.num_tensors), threads=1)
            evaluator.spend(len(variants) - 1)
            evaluator.offer(place_levels(task, distinct[found.latency_ps.argmin()]).plan)
