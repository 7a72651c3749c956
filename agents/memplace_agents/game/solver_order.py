"""Search for the order in which XLA's memory-space assignment serves the buffers, a hook of XLA's own."""

from __future__ import annotations

import numpy as np

from memplace_agents.base import Agent
from memplace_agents.evaluator import GameEvaluator
from memplace_agents.xla_msa import PUBLIC_SETS, MsaOptions, assign, default_plan
from memplace_agents.xla_msa.assignment import addresses
from memplace_agents.xla_msa.buffers import buffers_of, in_order
from memplace_agents.xla_msa.xla_costs import op_costs
from memplace_env.placement.task import Task


class SolverOrder(Agent[GameEvaluator]):
    """Climbs over buffer orders, from XLA's own order with the best of the public option sets.

    A move serves one buffer earlier or later, or swaps two. Each plan takes a whole run of memory-space assignment,
    some 100 times as long as a game.
    """

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Climb until the budget is spent."""
        task, rng = evaluator.env.task, np.random.default_rng(seed)
        tried = [
            (evaluator.offer(default_plan(task, public.options)).latency_ps, public.options)
            for public in PUBLIC_SETS[: evaluator.budget]
        ]
        latency, options = min(tried, key=lambda pair: pair[0])
        order = default_order(task, options)
        while evaluator.remaining > 0 and len(order) > 1:
            candidate = _neighbour(order, rng)
            reached = evaluator.offer(assign(task, options, candidate)).latency_ps
            if reached <= latency:
                order, latency = candidate, reached


def default_order(task: Task, options: MsaOptions) -> list[int]:
    """Return the tensors in the order in which `assign` serves them by default."""
    base, limit = addresses(task, options)
    buffers = buffers_of(task.program, limit - base)
    return [buffer.tensor for buffer in in_order(op_costs(task), task.program, buffers, options.benefit_scale)]


def _neighbour(order: list[int], rng: np.random.Generator) -> list[int]:
    changed = order.copy()
    one, other = rng.choice(len(order), size=2, replace=False)
    if rng.random() < 0.5:
        changed.insert(other, changed.pop(one))
    else:
        changed[one], changed[other] = changed[other], changed[one]
    return changed
