"""Simulated annealing over one-shot assignments: a strong baseline that takes little time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import first_assignments, offer_cheap_plans
from memplace_agents.search.evaluator import Evaluated, OneShotEvaluator
from memplace_env.envs.one_shot import OneShotProblem

TEMPERATURE = 0.002
"""Temperature at the start, as a fraction of native's latency; it falls to zero with the square of the fraction of the
budget, or of the time, that is left. Our choice, from trials on the three paper workloads, as all that follow."""
LONGEST_RUN = 8
"""Most ops that one move changes."""
AGAIN = 10
"""Number of steps between repeated measurements of the current assignment, if measurements are noisy."""


class LocalSearch(Agent[OneShotEvaluator]):
    """Changes a few entries of an assignment at a time; keeps faster ones, at first also slightly slower ones.

    Begins with the plans of all rules (`cheap_plans`) and the best of their assignments. A move either redraws one or
    two entries, or gives a run of neighbouring ops' weights or results the same level, as good assignments are
    contiguous (a result of EGRL).

    With noisy measurements a lucky one would keep the search at its assignment, so this is measured again at times.
    """

    def run(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Anneal until the budget is spent."""
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        scale = TEMPERATURE * problem.native_report.latency_s
        offer_cheap_plans(evaluator)
        starts = first_assignments(problem, evaluator.incumbent)
        latencies = evaluator(starts).latency_s
        if not len(latencies):
            return
        current, latency = starts[latencies.argmin()], latencies.min()
        steps = 0
        while evaluator.remaining > 0 and len(problem.movable):
            steps += 1
            if evaluator.noisy and steps % AGAIN == 0:
                latency = measured_again(latency, evaluator(current[None]))
                continue
            candidate = neighbour(problem, current, rng)
            measured = evaluator(candidate[None]).latency_s
            heat = scale * evaluator.fraction_left**2
            # Metropolis: an increase d is accepted with probability exp(-d / heat); 1e-300 keeps the logarithm finite.
            if len(measured) and measured[0] <= latency - heat * np.log(max(rng.random(), 1e-300)):
                current, latency = candidate, measured[0]


def measured_again(latency_s: float, again: Evaluated) -> float:
    """Return the mean of the latency so far and another measurement; the latency so far if the budget is spent."""
    return float(latency_s + again.latency_s[0]) / 2 if len(again.latency_s) else latency_s


def neighbour(problem: OneShotProblem, current: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return an assignment int64[2T] one move of `LocalSearch` away, in a task with a choice."""
    changed, movable = current.copy(), problem.movable
    if rng.random() < 0.5:
        for entry in movable[rng.integers(len(movable), size=rng.integers(1, 3))]:
            changed[entry] = rng.choice(np.flatnonzero(problem.mask[entry]))
    else:
        first = movable[rng.integers(len(movable))]
        # Every second entry, so all of them are weights or all are results.
        run = np.arange(first, min(first + 2 * rng.integers(2, LONGEST_RUN + 1), len(changed)), 2)
        level = rng.integers(problem.accelerator.num_levels)
        changed[run[problem.mask[run, level]]] = level
    return changed
