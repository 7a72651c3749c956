"""Simulated annealing of the best game, with moves that the policy proposes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.search_types import Floats32
from memplace_agents.saved_values import whole
from memplace_agents.search.annealing_kernels import anneal
from memplace_agents.search.game_local_search import SAVED_STATES, SHORTEST_CYCLE
from memplace_agents.search.preferences import Preferences, by_role, by_tensor
from memplace_env._lib.units import ceil_div
from memplace_env.envs.malloc_game import MallocGameProblem

GUIDED = 0.25
"""Fraction of the moves that the policy proposes; our choice."""
TEMPERATURE = 0.003
"""Heat at the start of a cycle, as a fraction of the latency of the best game so far; our choice."""


class GuidedAnnealing:
    """One chain of `GameLocalSearch`, in pieces: longer and longer cycles, each from the best game so far.

    The last cycle takes all games that are left, so that it cools down.

    Args:
        problem: the game.
    """

    def __init__(self, problem: MallocGameProblem) -> None:
        self._problem = problem
        self._groups: tuple[Any, ...] = by_tensor(problem), by_role(problem)
        self._stride = ceil_div(problem.num_decisions, SAVED_STATES)
        self._current: NDArray[np.int8] = np.zeros(problem.num_decisions, np.int8)
        self._played, self._length = 0, SHORTEST_CYCLE  # games of this cycle so far, and in all

    def games_left(self) -> int:
        """Return the number of games until the cycle ends."""
        return self._length - self._played

    def start_from(self, best: Preferences, left: int) -> None:
        """Begin the next cycle if one has ended.

        Args:
            best: int8[U], the best game so far.
            left: games that are left for all cycles, at least 1.
        """
        if self._played == 0:
            self._current[:] = best
            if left < 3 * self._length:  # too few for this cycle and the next
                self._length = left

    def run(self, num_games: int, best_ps: float, guide: Floats32 | None, seed: int) -> Preferences:
        """Play so many games, at most those that are left in the cycle; return the best one's preferences, int8[U].

        Args:
            num_games: number of games.
            best_ps: latency of the best game so far, of which the heat is a fraction.
            guide: float32[U, 3], probabilities of actions; None for no proposals.
            seed: seed of the moves.
        """
        problem, best = self._problem, np.empty_like(self._current)
        progress = (self._played + np.arange(num_games)) / self._length
        first = problem.new_states(1)[0]
        game = problem.tables, problem.layout, *self._groups, first, self._stride
        anneal(*game, TEMPERATURE * best_ps * (1 - progress) ** 2, seed, self._current, best, guide, GUIDED)
        self._played += num_games
        if self._played == self._length:
            self._played, self._length = 0, 2 * self._length
        return best

    def state_dict(self) -> dict[str, Any]:
        """Return the chain's state, as plain values."""
        return {"current": self._current.tolist(), "played": self._played, "length": self._length}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self._current[:] = checked_preferences(state["current"], len(self._current))
        self._length = whole(state["length"], 1)
        self._played = whole(state["played"], 0, self._length - 1)


def checked_preferences(saved: Any, count: int) -> Preferences:
    """Return saved actions as int8[U].

    Raises:
        ValueError: if they are none.
    """
    if not isinstance(saved, list) or len(saved) != count:
        raise ValueError("no actions")
    return np.array([whole(action, 0, 2) for action in saved], np.int8)
