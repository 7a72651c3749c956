"""XLA's own hook: search for the order in which memory-space assignment serves the buffers."""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.evaluator import GameEvaluator
from agents.game.wishes import OPTIONS
from agents.xla_msa.assign import assign
from agents.xla_msa.buffers import buffers_of, in_order
from agents.xla_msa.costs import op_costs
from agents.xla_msa.options import MsaOptions
from memplace_env.accelerator import Accelerator
from memplace_env.registration import Formulation
from memplace_env.workload.program import Program


class SolverOrder(Agent[GameEvaluator]):
    """Hill climbing over buffer orders, from the better of XLA's own order with either of the public option sets.

    A move serves one buffer earlier or later, or swaps two. Each plan costs a whole run of memory-space assignment,
    some 100 times as much as a game.
    """

    name = "solver-order"
    formulations = (Formulation.GAME,)

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Climb until the budget is spent."""
        program, accelerator = evaluator.env.program, evaluator.env.accelerator
        rng = np.random.default_rng(seed)
        tried = []
        for options in OPTIONS[: evaluator.budget]:
            latency = evaluator.offer(assign(program, accelerator, options)).latency_ps
            tried.append((latency, options))
        latency, options = min(tried, key=lambda pair: pair[0])
        order = default_order(program, accelerator, options)
        while evaluator.remaining > 0 and len(order) > 1:
            candidate = _neighbour(order, rng)
            reached = evaluator.offer(assign(program, accelerator, options, candidate)).latency_ps
            if reached <= latency:
                order, latency = candidate, reached


def default_order(program: Program, accelerator: Accelerator, options: MsaOptions) -> list[int]:
    """Tensors in the order in which `assign` serves them if it is told none."""
    capacity = accelerator.levels[0].capacity_bytes
    buffers = buffers_of(program, capacity - min(options.reserved_bytes, capacity))
    return [
        buffer.tensor for buffer in in_order(op_costs(program, accelerator), program, buffers, options.benefit_scale)
    ]


def _neighbour(order: list[int], rng: np.random.Generator) -> list[int]:
    changed = order.copy()
    one, other = rng.choice(len(order), size=2, replace=False)
    if rng.random() < 0.5:
        changed.insert(other, changed.pop(one))
    else:
        changed[one], changed[other] = changed[other], changed[one]
    return changed
