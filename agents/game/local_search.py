"""Simulated annealing over wishes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent
from agents.evaluator import GameEvaluator
from agents.game import kernels
from agents.game.wishes import Wishes, by_role, by_tensor, finished, starts
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation
from memplace_env.threads import available_cores
from memplace_env.workload.program import Ints

SAVED_STATES = 16
"""Per game, from which changed games are replayed: more cost more to save than they spare."""
GAMES_PER_ROUND = 500
"""Of each chain between two looks at the clock."""
SHORTEST_CYCLE = 2000
"""Games of each chain until it is cold for the first time; each cycle is twice as long as the one before."""


class GameLocalSearch(Agent[GameEvaluator]):
    """Anneals the best of the games that `wishes.starts` knows, in longer and longer cycles.

    Each cycle begins with the best game so far. Its length depends on the budget only, so that a run with a time limit
    is the beginning of one without. All constants are our choice, from trials on the zoo.

    Args:
        temperature: at the start of a cycle, as a share of the latency with everything in the backing memory; falls
            to zero with the square of what is left of the cycle.
        chains: run side by side, each with its own random numbers; the result does not depend on the cores there are.

    Raises:
        AgentError: if an option makes no sense.
    """

    name = "game-local-search"
    formulations = (Formulation.GAME,)

    def __init__(self, temperature: float = 0.003, chains: int = 2) -> None:
        if temperature < 0 or chains < 1:
            raise AgentError(f"temperature={temperature}, chains={chains} make no sense; pass at least 0 and 1.")
        self.temperature = temperature
        self.chains = chains

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Anneal in longer and longer cycles until the budget is spent."""
        problem = evaluator.env.problem
        wishes = starts(problem, evaluator.incumbent)[: evaluator.budget]
        states = finished(problem, wishes)
        evaluator.offer_states(states)
        best = wishes[problem.latency_s(states).argmin()]
        rng, length = np.random.default_rng(seed), SHORTEST_CYCLE
        with ThreadPoolExecutor(min(self.chains, available_cores())) as pool:
            annealing = _Annealing(evaluator, pool, self.temperature * problem.all_backing_ps, self.chains, rng)
            while (chains := min(self.chains, evaluator.remaining)) > 0:
                left = evaluator.remaining // chains
                best = annealing.cycle(best, chains, left if left < 3 * length else length)
                length *= 2


class _Annealing:
    """What all cycles of one search share."""

    def __init__(
        self,
        evaluator: GameEvaluator,
        pool: ThreadPoolExecutor,
        temperature_ps: float,
        chains: int,
        rng: np.random.Generator,
    ) -> None:
        self._evaluator, self._pool, self._rng = evaluator, pool, rng
        self._temperature_ps = temperature_ps
        problem = evaluator.env.problem
        self._game: tuple[Any, ...] = problem.tables, problem.layout, by_tensor(problem), by_role(problem)
        self._stride = -(-problem.num_decisions // SAVED_STATES)

    def cycle(self, best: Wishes, chains: int, length: int) -> Wishes:
        """Cool down over `length` games of each chain, or until the time is up; returns the best wishes."""
        current = np.repeat(best[None], chains, axis=0)
        heats = self._temperature_ps * (1 - np.arange(length) / length) ** 2
        best_ps = None
        for first in range(0, length, GAMES_PER_ROUND):
            if self._evaluator.remaining <= 0:
                break
            latency, found = self._round(current, heats[first : first + GAMES_PER_ROUND])
            leader = int(latency.argmin())
            if best_ps is None or latency[leader] < best_ps:
                best_ps, best = latency[leader], found[leader]
            states = finished(self._evaluator.env.problem, found[leader][None])
            self._evaluator.offer_states(states, games=chains * len(heats[first : first + GAMES_PER_ROUND]))
        return best

    def _round(self, current: Wishes, heats: NDArray[np.float64]) -> tuple[Ints, Wishes]:
        """Let each chain play on; returns the latency and the wishes of the best game of each."""
        problem, found = self._evaluator.env.problem, np.empty_like(current)
        seeds = self._rng.integers(2**32, size=len(current)).tolist()

        def chain(index: int) -> int:
            first, wishes, best = problem.new_states(1)[0], current[index], found[index]
            tables, layout, uses, twins = self._game
            return int(
                kernels.anneal(tables, layout, uses, twins, first, self._stride, heats, seeds[index], wishes, best)
            )

        return np.array(list(self._pool.map(chain, range(len(current))))), found
