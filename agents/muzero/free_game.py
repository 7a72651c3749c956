"""mallocGame as MuZero plays it: decisions with a choice only, rewards in points, small observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from agents.game.kernels import grant
from agents.game.wishes import greedy_wishes
from agents.muzero.tree import Floats
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.observation import AHEAD, BINS, LOOKAHEAD, TENSOR
from memplace_env.envs.malloc_game.rules import choose, play
from memplace_env.envs.malloc_game.state import ESTIMATE, MASK, USE
from memplace_env.workload.program import Ints

SIDE = BINS // 2
"""Height and width of the profile: half the environment's, as a quarter of the memory shows as much."""
BEFORE_LOOKAHEAD = BINS + len(TENSOR) + 3 + 3
"""Columns of `Seen.flat` for bandwidth, tensor, progress and legal actions; the lookahead follows."""
FLAT = BEFORE_LOOKAHEAD + AHEAD * len(LOOKAHEAD)
SMALLEST_GAIN = 0.001
"""Share of the latency that counts as the greedy player's gain at least; our choice."""


class Seen(NamedTuple):
    """Observations of B states as they are kept: profile uint8[B, 2, 32, 32], all the rest flat float16[B, 470]."""

    profile: NDArray[np.uint8]
    flat: NDArray[np.float16]


class FreeGame:
    """A game without its forced decisions, about half of all: each action plays those that follow as well.

    Rewards are in *points*: percent of what the greedy player gains over everything in the backing memory, relative
    to what it has gained at the same decision. So the return is 0 for the greedy player, whatever the program, and a
    value tells how much better or worse than the greedy player a game will end from here on. That subtracts a function
    of the decision's number, which changes no optimal policy (Ng, Harada and Russell, ICML 1999); our choice.

    Attributes:
        problem: the game.
        point_ps: one point in picoseconds.
    """

    def __init__(self, problem: MallocGameProblem) -> None:
        self.problem = problem
        row = problem.new_rows(1)
        self.greedy, estimates = greedy_game(problem)
        self._baseline = estimates
        gain = max(int(estimates[0] - estimates[-1]), round(SMALLEST_GAIN * problem.all_backing_ps), 1)
        self.point_ps = gain / 100
        advance(problem.g, problem.at, row, np.full(1, -1))
        self._first = row[0]

    def new_rows(self, count: int) -> Ints:
        """int64[count, size], games before their first choice."""
        return np.repeat(self._first[None], count, axis=0)

    def play(self, rows: Ints, actions: Ints) -> Floats:
        """Play in place up to the next choice; rewards float64[B] in points, 0 in games that are over.

        Illegal actions are replaced as the game does.
        """
        before = self.standing(rows)
        advance(self.problem.g, self.problem.at, rows, np.ascontiguousarray(actions, dtype=np.int64))
        return self.standing(rows) - before

    def standing(self, rows: Ints) -> Floats:
        """float64[B], by how many points each game is ahead of the greedy player's at the same decision."""
        return np.asarray((self._baseline[rows[:, USE]] - rows[:, ESTIMATE]) / self.point_ps)

    def observe(self, rows: Ints) -> Seen:
        """What the network sees."""
        seen = self.problem.observe(rows)
        lines = seen.profile[:, :, ::2] // 2 + seen.profile[:, :, 1::2] // 2
        parts = (seen.bandwidth, seen.tensor, seen.progress, seen.action_mask, seen.lookahead.reshape(len(rows), -1))
        return Seen(
            lines[..., ::2] // 2 + lines[..., 1::2] // 2,
            np.concatenate(parts, axis=1, dtype=np.float16, casting="same_kind"),
        )


def greedy_game(problem: MallocGameProblem) -> tuple[NDArray[np.int8], Ints]:
    """int8[U], what the greedy player plays, and int64[U + 1], its estimated latency in ps before each decision."""
    wishes, rows = greedy_wishes(problem), problem.new_rows(1)
    actions = np.empty(problem.num_decisions, dtype=np.int8)
    estimates = np.empty(problem.num_decisions + 1, dtype=np.int64)
    for use, wish in enumerate(wishes):
        estimates[use] = rows[0, ESTIMATE]
        actions[use] = grant(rows[0, MASK], wish)
        problem.play(rows, actions[use : use + 1])
    estimates[-1] = rows[0, ESTIMATE]
    return actions, estimates


@njit(cache=True, nogil=True)
def advance(g, at, rows, actions):  # type: ignore[no-untyped-def]
    """Play an action in each row, -1 for none, then all forced ones."""
    for index in range(len(rows)):
        row = rows[index]
        if actions[index] >= 0 and row[MASK] != 0:
            play(g, at, row, choose(row[MASK], actions[index]))
        while row[MASK] != 0 and row[MASK] & (row[MASK] - 1) == 0:
            play(g, at, row, choose(row[MASK], 0))
