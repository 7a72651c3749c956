"""Episodes side by side, of one program or of many, as one call of a kernel plays them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.array_rows import AddressRows, row_of, rows_of
from memplace_env._lib.units import PS
from memplace_env.envs.placement_env import shallow_copy
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class BatchProblem(Protocol):
    """A problem whose states are arrays int64[size] that kernels play."""

    @property
    def task(self) -> Task:
        """The task that it is about."""

    @property
    def all_backing_ps(self) -> int:
        """Latency with everything in the backing memory."""

    @property
    def num_decisions(self) -> int:
        """Number of decisions in every episode."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """NamedTuples of the arrays and scalars that kernels read."""

    @property
    def part_rows(self) -> tuple[Ints, ...]:
        """Their rows, see `row_of`."""

    def plan(self, state: Ints) -> MemoryPlan:
        """Return the plan of a state int64[size]."""

    def checked_state(self, state: Any) -> Ints:
        """Return a copy of a state that decisions lead to, or raise an EnvError."""

    def checked_start(self, state: Any) -> Ints:
        """Return a copy of a state that an episode can begin from, or raise an EnvError."""


Problem = TypeVar("Problem", bound=BatchProblem)


class Batch(ABC, Generic[Problem]):
    """B episodes, each of a problem of its own or all of the same one, that one call of a kernel decides and observes.

    Args:
        problems: the problem of each episode.
        states: the state int64[size] of each; it is copied.

    Attributes:
        problems: as passed in, where `begin` has not replaced them.
        states: the states, which kernels change in place.
        heads: int64[B, HEAD], the first fields of all states, as of the last step or beginning.
        has_black_box: whether a simulator evaluates the plans of any of the problems, or of one before `begin`.
    """

    HEAD: ClassVar[int]
    """Number of fields at the beginning of each state that `heads` copies."""
    DECIDED: ClassVar[int] = 0
    """Field with the number of decisions made."""
    MASK: ClassVar[int]
    """Field with the legal actions as bits; 0 once an episode is over."""
    ESTIMATE: ClassVar[int]
    """Field with the estimated latency, ps."""

    def __init__(self, problems: Sequence[Problem], states: Sequence[Ints]) -> None:
        self.problems, self.states = list(problems), [state.copy() for state in states]
        self.heads = np.stack([state[: self.HEAD] for state in states])
        self.has_black_box = any(problem.task.is_black_box for problem in {*problems})
        self._rows = [
            AddressRows(like, np.stack([problem.part_rows[part] for problem in problems]))
            for part, like in enumerate(problems[0].parts)
        ]
        self._owns_rows = True  # forks share the rows of problems until one of them turns to another problem
        self._state_rows: AddressRows | None = None
        self._constants: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.states)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle problems and states: addresses mean nothing in another process."""
        return type(self), (self.problems, self.states)

    def fork(self) -> Self:
        """Return an independent copy; what is never changed is shared."""
        self._owns_rows = False
        other = shallow_copy(self)
        other.problems, other.states = self.problems.copy(), [state.copy() for state in self.states]
        other.heads, other._state_rows = self.heads.copy(), None
        return other

    @property
    def parts(self) -> tuple[AddressRows, ...]:
        """`AddressRows` of each part of the problems, and of the states, for kernels."""
        if self._state_rows is None:
            self._state_rows = AddressRows(self.states[0], rows_of(self.states))
        return *self._rows, self._state_rows

    @property
    def all_backing_ps(self) -> Ints:
        """int64[B], latencies with everything in the backing memory."""
        return self.each("all_backing_ps", lambda problem: problem.all_backing_ps)

    def each(self, name: str, of: Callable[[Problem], float]) -> NDArray[Any]:
        """Return [B], a number of each problem, found once for each name and made anew when a problem changes."""
        if name not in self._constants:
            self._constants = {**self._constants, name: np.array([of(problem) for problem in self.problems])}
        return self._constants[name]

    def begin(self, which: Sequence[int] | Ints, problems: Sequence[Problem], states: Sequence[Ints]) -> None:
        """Let the episodes `which` go on from copies of these states of these problems."""
        for index, problem, state in zip(which, problems, states, strict=True):
            if problem is not self.problems[index]:
                self._turn_to(index, problem)
                self.states[index] = state.copy()
                if self._state_rows is not None:
                    self._state_rows.rows[index] = row_of(self.states[index])
            self.states[index][:] = state
            self.heads[index] = state[: self.HEAD]

    def _turn_to(self, index: int, problem: Problem) -> None:
        if not self._owns_rows:
            self._rows, self._owns_rows = [AddressRows(like, rows.copy()) for like, rows in self._rows], True
        self.problems[index], self._constants = problem, {}
        self.has_black_box |= problem.task.is_black_box
        for part, row in zip(self._rows, problem.part_rows, strict=True):
            part.rows[index] = row

    def legal(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal actions; none in finished episodes."""
        return (self.heads[:, self.MASK, None] >> np.arange(3) & 1).astype(bool)

    def done(self) -> NDArray[np.bool_]:
        """Return bool[B], which episodes are finished."""
        return np.asarray(self.heads[:, self.MASK] == 0)

    def latency_s(self) -> NDArray[np.float64]:
        """Return float64[B], latencies in seconds by the cost arrays; what is undecided is in the backing memory."""
        return self.heads[:, self.ESTIMATE].astype(np.float64) * PS

    def by_problem(self, which: Ints) -> dict[Problem, list[int]]:
        """Return the episodes `which` int64[n] by their problem."""
        together: dict[Problem, list[int]] = {}
        for index in which.tolist():
            together.setdefault(self.problems[index], []).append(index)
        return together

    @property
    def nbytes(self) -> int:
        """Bytes that states and heads take."""
        return sum(state.nbytes for state in self.states) + self.heads.nbytes

    def stacked(self, which: Ints) -> Ints:
        """Return int64[n, size], copies of the states of the episodes `which`, which are of one problem."""
        size = len(self.states[which[0] if len(which) else 0])
        return np.array([self.states[index] for index in which], dtype=np.int64).reshape(len(which), size)

    @abstractmethod
    def empty(self, count: int) -> Any:
        """Return uninitialised observations of `count` episodes."""

    @abstractmethod
    def observe(self, which: Ints | None = None, into: Any = None) -> Any:
        """Return the observations of the episodes `which` int64[n], or of all, in `into` if that is given."""
