"""Simulated annealing over preferred actions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search import annealing_kernels
from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.preferences import Preferences, by_role, by_tensor, finished, first_preferences
from memplace_env._lib.errors import AgentError
from memplace_env._lib.threads import available_cores
from memplace_env._lib.units import ceil_div
from memplace_env.program.program import Ints

TEMPERATURE = 0.003
"""Temperature at the start of a cycle, as a fraction of the latency with everything in the backing memory; it falls to
zero with the square of the fraction of the cycle that is left. Our choice, from trials on the zoo, as all below."""
SAVED_STATES = 16
"""Number of saved states of a game, from which changed games are replayed; more take longer to save than they spare."""
GAMES_PER_ROUND = 500
"""Number of games of each chain between two checks of the clock."""
SHORTEST_CYCLE = 2000
"""Number of games of each chain in the first cycle; each cycle is twice as long as the one before."""


class GameLocalSearch(Agent[GameEvaluator]):
    """Begins with the plans of all rules, and anneals the best of their games in longer and longer cycles.

    Each cycle begins with the best game so far. Its length depends on the budget only, so that a run with a time limit
    is the beginning of one without.

    Args:
        chains: chains that run side by side, each with its own random numbers; the number of cores does not change the
            result.

    Raises:
        AgentError: if there is no chain.
    """

    def __init__(self, chains: int = 2) -> None:
        if chains < 1:
            raise AgentError(f"chains={chains} is out of range; pass at least 1.")
        self.chains = chains

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Anneal in longer and longer cycles until the budget is spent."""
        problem = evaluator.env.problem
        offer_cheap_plans(evaluator)
        preferences = first_preferences(problem, evaluator.incumbent)[: evaluator.remaining]
        if not len(preferences):
            return
        states = finished(problem, preferences)
        evaluator.offer_states(states)
        best = preferences[problem.latency_s(states).argmin()]
        rng, length = np.random.default_rng(seed), SHORTEST_CYCLE
        with ThreadPoolExecutor(min(self.chains, available_cores())) as pool:
            annealing = _Annealing(evaluator, pool, rng)
            while (chains := min(self.chains, evaluator.remaining)) > 0:
                left = evaluator.remaining // chains
                best = annealing.cycle(best, chains, left if left < 3 * length else length)
                length *= 2


class _Annealing:
    """The state that all cycles of one search share."""

    def __init__(self, evaluator: GameEvaluator, pool: ThreadPoolExecutor, rng: np.random.Generator) -> None:
        self._evaluator, self._pool, self._rng = evaluator, pool, rng
        problem = evaluator.env.problem
        self._temperature_ps = TEMPERATURE * problem.all_backing_ps
        self._game: tuple[Any, ...] = problem.tables, problem.layout, by_tensor(problem), by_role(problem)
        self._stride = ceil_div(problem.num_decisions, SAVED_STATES)

    def cycle(self, best: Preferences, chains: int, length: int) -> Preferences:
        """Cool down over `length` games of each chain, or until the time is up; return the best preferences."""
        current = np.repeat(best[None], chains, axis=0)
        heats = self._temperature_ps * (1 - np.arange(length) / length) ** 2
        best_ps = None
        for first in range(0, length, GAMES_PER_ROUND):
            if self._evaluator.remaining <= 0:
                break
            round_heats = heats[first : first + GAMES_PER_ROUND]
            latency, round_best = self._round(current, round_heats)
            leader = int(latency.argmin())
            if best_ps is None or latency[leader] < best_ps:
                best_ps, best = latency[leader], round_best[leader]
            states = finished(self._evaluator.env.problem, round_best[leader][None])
            self._evaluator.offer_states(states, games=chains * len(round_heats))
        return best

    def _round(self, current: Preferences, heats: NDArray[np.float64]) -> tuple[Ints, Preferences]:
        """Run each chain for one game per heat; return latency in ps and preferences of the best game of each."""
        problem, best = self._evaluator.env.problem, np.empty_like(current)
        seeds = self._rng.integers(2**32, size=len(current)).tolist()

        def chain(index: int) -> int:
            first = problem.new_states(1)[0]
            tables, layout, uses, twins = self._game
            arrays = current[index], best[index]
            return int(
                annealing_kernels.anneal(tables, layout, uses, twins, first, self._stride, heats, seeds[index], *arrays)
            )

        return np.array(list(self._pool.map(chain, range(len(current))))), best
