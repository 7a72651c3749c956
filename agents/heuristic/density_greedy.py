"""Density-greedy as an agent: no search, milliseconds; no other agent's result means anything without it."""

from __future__ import annotations

from agents.base import Agent
from agents.evaluator import MapEvaluator
from memplace_env.compiler import place_mapping
from memplace_env.compiler.density import VARIANTS, density_mappings
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation


class DensityGreedy(Agent[MapEvaluator]):
    """Fills each level by time saved for the bytes held and for how long, in up to ten variants; keeps the best plan.

    The rule stands in `memplace_env.compiler.density`. It maps tensors, not ops, so that its plans may be finer than
    any map of the environment. Reads the cost arrays, also where a black box judges.

    Args:
        variants: how many of its ways to score are tried, the best one alone first, 1 to 10.

    Raises:
        AgentError: if `variants` is out of range.
    """

    name = "density-greedy"
    formulations = (Formulation.ONE_SHOT,)
    deterministic = True

    def __init__(self, variants: int = len(VARIANTS)) -> None:
        if not 1 <= variants <= len(VARIANTS):
            raise AgentError(f"variants={variants} is out of range; pass 1 to {len(VARIANTS)}.")
        self.variants = variants

    def run(self, evaluator: MapEvaluator, seed: int) -> None:
        """Nothing is random, so the seed changes nothing."""
        for mapping in density_mappings(evaluator.env.task)[: self.variants]:
            if evaluator.remaining > 0:
                evaluator.offer(place_mapping(evaluator.env.task, mapping).plan)
