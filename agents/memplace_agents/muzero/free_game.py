"""mallocGame as MuZero plays it: decisions with a choice only, rewards in points, many games side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.game_kernels import follow_until
from memplace_agents.muzero.search_types import Bools, Floats, Floats32
from memplace_agents.search.annealing_kernels import nearest_legal
from memplace_agents.search.preferences import Preferences, greedy_preferences
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
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
        """Return float64[...], how many points states, or their heads, are ahead of the greedy player's game."""
        return np.asarray((self._greedy_ps[states[..., USE]] - states[..., ESTIMATE]) / self.point_ps)


class GamesAside:
    """Games side by side, with what their observations are made of.

    Args:
        game: the game.
        count: B, number of games.

    Attributes:
        batch: the games.
        observations: float32[B, 546], flat observations.
        preferences: int8[B, U], the actions played so far.
    """

    def __init__(self, game: FreeGame, count: int) -> None:
        self.game = game
        self.batch = GameBatch([game.problem] * count, [game.first_state] * count, flat=True)
        self.observations = self.batch.observe()
        self.preferences = np.zeros((count, game.problem.num_decisions), np.int8)

    def play(self, actions: Ints) -> tuple[Floats32, Bools]:
        """Play a legal action int64[B] in each game, and the forced decisions after it.

        Returns:
            float32[B], rewards in points; and bool[B], the games that ended.
        """
        batch, before = self.batch, self.game.points(self.batch.heads)
        self.preferences[np.arange(len(actions)), batch.heads[:, USE]] = actions
        batch.step(actions, self.observations, skip_forced=True)
        return (self.game.points(batch.heads) - before).astype(np.float32), batch.done()

    def restart(self, index: int, preferences: Preferences, use: int) -> None:
        """Let a game go on from use number `use` of the game along preferences int8[U]."""
        self.preferences[index] = preferences
        self.batch.begin([index], [self.game.problem], [self.game.state_after(preferences, use)])
        self.batch.observe(np.array([index]), self.observations[index : index + 1])


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
