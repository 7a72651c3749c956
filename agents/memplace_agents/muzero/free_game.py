"""mallocGame as MuZero plays it: decisions with a choice only, rewards in points, small observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.game.annealing_kernels import nearest_legal
from memplace_agents.game.preferences import greedy_preferences
from memplace_agents.muzero.game_kernels import NO_PLAY, play_to_next_choice
from memplace_agents.muzero.search_types import Bools, Floats
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.observation import AHEAD, BINS, LOOKAHEAD, PROGRESS, TENSOR
from memplace_env.envs.malloc_game.state import ACTIONS, ESTIMATE, MASK, USE
from memplace_env.program.program import Ints

PROFILE_SIZE = BINS // 2
"""Height and width of the profile: half the environment's, as a quarter of the pixels shows as much."""
_MASK_COLUMN = BINS + len(TENSOR) + len(PROGRESS)
LOOKAHEAD_COLUMN = _MASK_COLUMN + len(ACTIONS)
"""First column of the lookahead in `Observation.features`."""
NUM_FEATURES = LOOKAHEAD_COLUMN + AHEAD * len(LOOKAHEAD)
"""Columns of `Observation.features`."""
SMALLEST_GAIN = 0.001
"""Least gain of the greedy player that points are scaled by, as a fraction of the latency; our choice."""


class Observation(NamedTuple):
    """Input of the network for `B` states, in the types of the replay.

    Attributes:
        profile: uint8[B, 2, 32, 32], the environment's profile, each pixel the mean of four.
        features: float16[B, 474], the environment's bandwidth, tensor, progress, action mask and lookahead.
    """

    profile: NDArray[np.uint8]
    features: NDArray[np.float16]

    @property
    def legal(self) -> Bools:
        """bool[B, 3], the legal actions, by the action mask."""
        return np.asarray(self.features[:, _MASK_COLUMN:LOOKAHEAD_COLUMN] > 0)


class FreeGame:
    """A game without its forced decisions, about half of all: each action plays those that follow as well.

    Rewards are in *points*: percent of the greedy player's gain over everything in the backing memory, relative to its
    gain at the same decision. So the return is 0 for the greedy player, whatever the program, and a value is how much
    better or worse than the greedy player a game will end from here on. That subtracts a function of the decision's
    number, which changes no optimal policy (Ng, Harada and Russell, ICML 1999); our choice.

    Attributes:
        problem: the game.
        greedy_actions: int8[U], the greedy player's actions.
        point_ps: one point in picoseconds.
    """

    def __init__(self, problem: MallocGameProblem) -> None:
        self.problem = problem
        self.greedy_actions, self._greedy_ps = greedy_game(problem)
        gain = int(self._greedy_ps[0] - self._greedy_ps[-1])
        self.point_ps = max(gain, round(SMALLEST_GAIN * problem.all_backing_ps), 1) / 100
        states = problem.new_states(1)
        play_to_next_choice(problem.tables, problem.layout, states, np.full(1, NO_PLAY))
        self._first_state = states[0]

    def new_states(self, count: int) -> Ints:
        """Return int64[count, size], games before their first choice."""
        return np.repeat(self._first_state[None], count, axis=0)

    def play(self, states: Ints, actions: Ints) -> Floats:
        """Play an action in each game, and the forced decisions up to the next choice.

        Args:
            states: int64[B, size], changed in place.
            actions: int64[B]; illegal ones are replaced as the game does.

        Returns:
            float64[B], rewards in points; 0 in games that are over.
        """
        before = self.points(states)
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        play_to_next_choice(self.problem.tables, self.problem.layout, states, actions)
        return self.points(states) - before

    def points(self, states: Ints) -> Floats:
        """Return float64[B], how many points each game is ahead of the greedy player's at the same decision."""
        return np.asarray((self._greedy_ps[states[:, USE]] - states[:, ESTIMATE]) / self.point_ps)

    def observe(self, states: Ints) -> Observation:
        """Return the network's input for states int64[B, size]."""
        full = self.problem.observe(states)
        lookahead = full.lookahead.reshape(len(states), -1)
        # Halved before they are added, so that sums stay in uint8: first pairs of rows, [B, 2, 32, 64], then columns.
        lines = full.profile[:, :, ::2] // 2 + full.profile[:, :, 1::2] // 2
        parts = (full.bandwidth, full.tensor, full.progress, full.action_mask, lookahead)
        return Observation(
            lines[..., ::2] // 2 + lines[..., 1::2] // 2,
            np.concatenate(parts, axis=1, dtype=np.float16, casting="same_kind"),
        )


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
