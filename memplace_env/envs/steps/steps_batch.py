"""Episodes in steps side by side, of one program or of many, decided and observed by compiled kernels on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.threads import in_chunks
from memplace_env.envs.batch.batch import Batch
from memplace_env.envs.steps import step_kernels as fields
from memplace_env.envs.steps.observation import OBSERVATION_SIZE
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.program.program import Ints


class Levels(NamedTuple):
    """One decision in each of B episodes.

    Attributes:
        gains: int64[B], picoseconds by which it lowered the estimated latency.
        played: int64[B], the levels given; -1 in finished episodes.
        following: int64[B], the decision of an assignment that comes next; -1 at the end.
    """

    gains: Ints
    played: Ints
    following: Ints


class StepsBatch(Batch[StepsProblem]):
    """B episodes of `StepsProblem`.

    Attributes:
        following: int64[B], the decision of an assignment that comes next; -1 at the end.
    """

    HEAD, MASK, ESTIMATE = fields.HEAD, fields.MASK, fields.ESTIMATE

    def __init__(self, problems: Sequence[StepsProblem], states: Sequence[Ints]) -> None:
        super().__init__(problems, states)
        self.following = np.empty(len(problems), dtype=np.int64)
        self._look_ahead(range(len(problems)))

    @property
    def native_ps(self) -> Ints:
        """int64[B], latencies of native's plans by the cost arrays."""
        return self.each("native_ps", lambda problem: problem.tables.native_ps)

    @property
    def native_s(self) -> NDArray[np.float64]:
        """float64[B], the same in seconds by the simulator."""
        return self.each("native_s", lambda problem: problem.one_shot.native_report.latency_s)

    def begin(self, which: Sequence[int] | Ints, problems: Sequence[StepsProblem], states: Sequence[Ints]) -> None:
        """Let the episodes `which` go on from copies of these states of these problems."""
        super().begin(which, problems, states)
        self._look_ahead(which)

    def _look_ahead(self, which: Sequence[int] | Ints) -> None:
        self.following = self.following.copy()  # forks share it
        for index in which:
            decision, decided = self.problems[index].tables.decision, self.heads[index, self.DECIDED]
            self.following[index] = decision[decided] if decided < len(decision) else -1

    def step(self, actions: NDArray[np.integer], into: NDArray[np.float32]) -> Levels:
        """Decide the next entry in each episode, and fill `into` with the observations after it.

        Args:
            actions: int[B], levels; one without room is replaced by the next slower one that has it.
            into: float32[B, 71].
        """
        count, actions = len(self.states), np.ascontiguousarray(actions, dtype=np.int64)
        moves = np.empty((3, count), dtype=np.int64)
        in_chunks(partial(fields.step_and_observe_all, *self.parts, actions, moves, self.heads, into), count)
        self.following = moves[2]
        return Levels(*moves)

    def observe(self, which: Ints | None = None, into: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the observations float32[n, 71] of the episodes `which` int64[n], or of all, in `into` if given."""
        index = np.arange(len(self)) if which is None else which
        rows = self.empty(len(index)) if into is None else into
        in_chunks(partial(fields.observe_all, *self.parts, index, rows), len(index))
        return rows

    def empty(self, count: int) -> NDArray[np.float32]:
        """Return uninitialised observations of `count` episodes."""
        return np.empty((count, OBSERVATION_SIZE), dtype=np.float32)
