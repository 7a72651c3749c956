"""Simulated annealing over one-shot maps: a strong baseline that costs little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent
from agents.evaluator import Evaluated, MapEvaluator
from agents.heuristic.first_maps import first_maps
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.registration import Formulation

AGAIN = 10
"""Of so many steps an annealer spends one on measuring anew where it stands, if measurements are noisy; our choice."""


class LocalSearch(Agent[MapEvaluator]):
    """Changes a few entries of a map at a time and keeps what is faster, at first also what is a little slower.

    Starts from the best of the maps that are known without a search (`first_maps`). A move either redraws
    one or two entries, or gives a run of neighbouring ops' weights or results the same level, as good maps are
    contiguous (a finding of EGRL). All constants are our choice, from trials on the three paper workloads.

    Where measurements are noisy, a lucky one would hold the search where it stands; so that is measured again.

    Args:
        temperature: at the start, as a share of native's latency; falls to zero with the square of what is left of
            the budget, or of the time.
        longest_run: most ops that one move sets.
    """

    name = "local-search"
    formulations = (Formulation.ONE_SHOT,)

    def __init__(self, temperature: float = 0.002, longest_run: int = 8) -> None:
        self.temperature = temperature
        self.longest_run = longest_run

    def run(self, evaluator: MapEvaluator, seed: int) -> None:
        """Anneal until the budget is spent."""
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        scale = self.temperature * problem.native_report.latency_s
        known = first_maps(problem, evaluator.incumbent)
        latencies = evaluator(known).latency_s
        if not len(latencies):
            return
        current, latency = known[latencies.argmin()], latencies.min()
        movable = np.flatnonzero(problem.mask.sum(axis=1) > 1)
        steps = 0
        while evaluator.remaining > 0 and len(movable):
            steps += 1
            if evaluator.noisy and steps % AGAIN == 0:
                latency = measured_again(latency, evaluator(current[None]))
                continue
            candidate = neighbour(problem, current, movable, rng, self.longest_run)
            found = evaluator(candidate[None]).latency_s
            heat = scale * evaluator.share_left**2
            if len(found) and found[0] <= latency - heat * np.log(max(rng.random(), 1e-300)):
                current, latency = candidate, found[0]


def measured_again(latency_s: float, again: Evaluated) -> float:
    """What is thought of a map after another measurement of it, which is half of it; there is none without budget."""
    return float(latency_s + again.latency_s[0]) / 2 if len(again.latency_s) else latency_s


def neighbour(
    problem: OneShotProblem,
    current: NDArray[np.int64],
    movable: NDArray[np.intp],
    rng: np.random.Generator,
    longest_run: int = 8,
) -> NDArray[np.int64]:
    """A map int64[2T] beside the current one, by one of `LocalSearch`'s moves; `movable` are entries with a choice."""
    changed = current.copy()
    if rng.random() < 0.5:
        for entry in movable[rng.integers(len(movable), size=rng.integers(1, 3))]:
            changed[entry] = rng.choice(np.flatnonzero(problem.mask[entry]))
    else:
        first = movable[rng.integers(len(movable))]
        run = np.arange(first, min(first + 2 * rng.integers(2, longest_run + 1), len(changed)), 2)
        level = rng.integers(problem.accelerator.num_levels)
        changed[run[problem.mask[run, level]]] = level
    return changed
