"""mallocGame as MuZero plays it: decisions with a choice only, rewards in points, many games side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.game_kernels import follow_until
from memplace_agents.muzero.search_types import Bools, Floats, Floats32
from memplace_agents.search.annealing_kernels import nearest_legal
from memplace_agents.search.preferences import Preferences, greedy_preferences
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, USE
from memplace_env.program.program import Ints

SMALLEST_GAIN = 0.001
"""Least gain of the greedy player that points are scaled by, as a fraction of the latency; our choice."""


class FreeGame:
    """A game without its forced decisions, about half of all: each action plays those that follow as well.

    Rewards are in *points*: percent of the greedy player's gain over everything in the backing memory, relative to its
    gain at the same decision. So the return is 0 for the greedy player, whatever the program, and a value is how much
    better or worse than the greedy player a game will end from here on. That subtracts a function of the decision's
    number, which changes no optimal policy (Ng, Harada and Russell, ICML 1999); our choice.

    Attributes:
        problem: the game.
        first_state: int64[size], the state before the first choice.
        point_ps: one point in picoseconds.
    """

    def __init__(self, problem: MallocGameProblem) -> None:
        self.problem = problem
        _, self._greedy_ps = greedy_game(problem)
        gain = int(self._greedy_ps[0] - self._greedy_ps[-1])
        self.point_ps = max(gain, round(SMALLEST_GAIN * problem.all_backing_ps), 1) / 100
        self.first_state = self.state_after(np.zeros(problem.num_decisions, np.int8), 0)

    def state_after(self, preferences: Preferences, use: int) -> Ints:
        """Return the state int64[size] before the first choice from use number `use` on, along preferences int8[U]."""
        state: Ints = self.problem.new_states(1)[0]
        follow_until(self.problem.tables, self.problem.layout, state, preferences, use)
        return state

    def points(self, states: Ints) -> Floats:
        """Return float64[...], how many points states int64[..., size] are ahead of the greedy player's game there."""
        return np.asarray((self._greedy_ps[states[..., USE]] - states[..., ESTIMATE]) / self.point_ps)


class GamesAside:
    """Games side by side, with what their observations are made of.

    Args:
        game: the game.
        count: B, number of games.

    Attributes:
        states: int64[B, size].
        profiles: their profiles, see `occupancy`.
        observations: float32[B, 546], flat observations.
        preferences: int8[B, U], the actions played so far.
    """

    def __init__(self, game: FreeGame, count: int) -> None:
        problem = game.problem
        self.game = game
        self.states = np.repeat(game.first_state[None], count, axis=0)
        self.profiles = problem.profiles(self.states, flat=True)
        self.observations = problem.observe_flat(self.states)
        self.preferences = np.zeros((count, problem.num_decisions), np.int8)

    @property
    def legal(self) -> Bools:
        """bool[B, 3], the legal actions."""
        return self.game.problem.legal(self.states)

    def play(self, actions: Ints) -> tuple[Floats32, Bools]:
        """Play a legal action int64[B] in each game, and the forced decisions after it.

        Returns:
            float32[B], rewards in points; and bool[B], the games that ended.
        """
        problem, before = self.game.problem, self.game.points(self.states)
        self.preferences[np.arange(len(actions)), self.states[:, USE]] = actions
        problem.step(self.states, actions, self.profiles, self.observations, skip_forced=True)
        return (self.game.points(self.states) - before).astype(np.float32), problem.done(self.states)

    def restart(self, index: int, preferences: Preferences, use: int) -> None:
        """Let a game go on from use number `use` of the game along preferences int8[U]."""
        one, problem = slice(index, index + 1), self.game.problem
        self.preferences[index] = preferences
        self.states[index] = self.game.state_after(preferences, use)
        self.profiles[one] = problem.profiles(self.states[one], flat=True)
        problem.observe_flat(self.states[one], self.observations[one])


def greedy_game(problem: MallocGameProblem) -> tuple[NDArray[np.int8], Ints]:
    """Play the greedy player's game of `U` decisions.

    Returns:
        int8[U], its actions; and int64[U + 1], its estimated latency in ps before each decision and at the end.
    """
    states = problem.new_states(1)
    actions = np.empty(problem.num_decisions, dtype=np.int8)
    latency_ps = np.empty(problem.num_decisions + 1, dtype=np.int64)
    for use, preferred in enumerate(greedy_preferences(problem)):
        latency_ps[use] = states[0, ESTIMATE]
        actions[use] = nearest_legal(states[0, MASK], preferred)
        problem.play(states, actions[use : use + 1])
    latency_ps[-1] = states[0, ESTIMATE]
    return actions, latency_ps
