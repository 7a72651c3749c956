"""XLA's own hook: search for the order in which memory-space assignment serves the buffers."""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.evaluator import GameEvaluator
from agents.xla_msa import PUBLIC_SETS, MsaOptions, assign, default_plan
from agents.xla_msa.assignment import addresses
from agents.xla_msa.buffers import buffers_of, in_order
from agents.xla_msa.costs import op_costs
from memplace_env.registration import Formulation
from memplace_env.task import Task


class SolverOrder(Agent[GameEvaluator]):
    """Hill climbing over buffer orders, from the best of XLA's own order with each of the public option sets.

    A move serves one buffer earlier or later, or swaps two. Each plan costs a whole run of memory-space assignment,
    some 100 times as much as a game.
    """

    name = "solver-order"
    formulations = (Formulation.GAME,)

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Climb until the budget is spent."""
        task, rng = evaluator.env.task, np.random.default_rng(seed)
        tried = []
        for each in PUBLIC_SETS[: evaluator.budget]:
            latency = evaluator.offer(default_plan(task, each.options)).latency_ps
            tried.append((latency, each.options))
        latency, options = min(tried, key=lambda pair: pair[0])
        order = default_order(task, options)
        while evaluator.remaining > 0 and len(order) > 1:
            candidate = _neighbour(order, rng)
            reached = evaluator.offer(assign(task, options, candidate)).latency_ps
            if reached <= latency:
                order, latency = candidate, reached


def default_order(task: Task, options: MsaOptions) -> list[int]:
    """Tensors in the order in which `assign` serves them if it is told none."""
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
