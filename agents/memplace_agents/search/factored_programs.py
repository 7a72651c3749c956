"""Programs whose decisions are sampled all at once: levels of an assignment, preferred actions of a game."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search.cheap_plans import first_assignments, offer_cheap_plans
from memplace_agents.search.evaluator import Evaluator, GameEvaluator, OneShotEvaluator
from memplace_agents.search.preferences import by_role, finished, first_preferences, groups
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.program.program import Ints

KEPT = 32
"""Number of best choices that are imitated; our choice."""
AT_A_TIME = 16
"""Games that are played, or maps that a black box evaluates, before the time is looked at; our choice."""
ACTIONS = 3
"""Preferred actions of a use, see `preferences.Preferences`."""


class FactoredDecisions(NamedTuple):
    """The decisions of a program that are taken at once.

    Attributes:
        legal: bool[M, L], levels or actions that each may take.
        alike: int64[M], number of the decisions to which each belongs that are often good together; None if none are.
    """

    legal: NDArray[np.bool_]
    alike: Ints | None = None


class FactoredProgram(ABC):
    """The search on one program.

    Args:
        evaluator: counts the plans.
        decisions: what is decided.

    Attributes:
        evaluator, decisions: as given.
        best: int64[K, M], the best choices so far, the fastest first.
        times_s: float64[K], their latencies.
    """

    def __init__(self, evaluator: Evaluator, decisions: FactoredDecisions) -> None:
        self.evaluator, self.decisions = evaluator, decisions
        self.best: Ints = np.zeros((0, len(decisions.legal)), dtype=np.int64)
        self.times_s = np.zeros(0)

    @property
    def done(self) -> bool:
        """True if the budget is spent, or there is nothing to decide."""
        return self.evaluator.remaining <= 0 or not len(self.decisions.legal)

    @abstractmethod
    def begin(self) -> None:
        """Evaluate the plans of the rules, and choices that follow them."""

    @abstractmethod
    def _latencies_s(self, choices: Ints) -> NDArray[np.float64]:
        """Evaluate the first of these choices int64[N, M] while the budget lasts; return their latencies."""

    def evaluate(self, choices: Ints) -> tuple[Ints, NDArray[np.float64]]:
        """Evaluate choices int64[N, M] while the budget lasts; return those evaluated, and their latencies."""
        times_s = self._latencies_s(choices)
        choices = choices[: len(times_s)]
        self.best, self.times_s = fastest(np.concatenate([self.best, choices]), np.concatenate([self.times_s, times_s]))
        return choices, times_s


class Assignments(FactoredProgram):
    """Levels of all tensors with a choice, in one-shot environments."""

    evaluator: OneShotEvaluator

    def __init__(self, evaluator: OneShotEvaluator) -> None:
        self._problem = problem = evaluator.env.problem
        super().__init__(evaluator, FactoredDecisions(problem.mask[problem.movable], alike_levels(problem)))

    def begin(self) -> None:
        """Evaluate the plans of the rules, and their levels as assignments."""
        before = self.evaluator.incumbent
        offer_cheap_plans(self.evaluator)
        self.evaluate(first_assignments(self._problem, before)[:, self._problem.movable])

    def _latencies_s(self, choices: Ints) -> NDArray[np.float64]:
        times_s, some = [np.zeros(0)], AT_A_TIME if self._problem.task.is_black_box else max(len(choices), 1)
        for first in range(0, len(choices), some):
            assignments = whole_assignments(self._problem, choices[first : first + some])
            times_s.append(self.evaluator(assignments).latency_s)
        return np.concatenate(times_s)


class Games(FactoredProgram):
    """Preferred actions of all uses, in mallocGame; see `preferences.finished`."""

    evaluator: GameEvaluator

    def __init__(self, evaluator: GameEvaluator) -> None:
        self._problem = evaluator.env.problem
        legal = np.ones((self._problem.num_decisions, ACTIONS), dtype=np.bool_)
        super().__init__(evaluator, FactoredDecisions(legal, by_role(self._problem).of))

    def begin(self) -> None:
        """Evaluate the plans of the rules, and the first games of all searches."""
        before = self.evaluator.incumbent
        offer_cheap_plans(self.evaluator)
        self.evaluate(first_preferences(self._problem, before).astype(np.int64))

    def _latencies_s(self, choices: Ints) -> NDArray[np.float64]:
        times_s = [np.zeros(0)]
        for first in range(0, len(choices), AT_A_TIME):  # games of large programs take tenths of a second
            some = choices[first : first + AT_A_TIME][: self.evaluator.remaining].astype(np.int8)
            times_s.append(self.evaluator.offer_states(finished(self._problem, some)))
        return np.concatenate(times_s)


def alike_levels(problem: OneShotProblem) -> Ints:
    """Return int64[M], a number for all decisions with a choice that play the same role, mostly one in each layer.

    They are about weights, or about results, of as many bytes, whose uses take as long at each level, and their ops
    compute as long.
    """
    program, costs = problem.program, problem.task.costs
    of, entry = problem.decision_of, np.arange(problem.num_decisions)
    size, use_ps = np.zeros_like(entry), np.zeros((len(entry), costs.use_ps.shape[1]), dtype=np.int64)
    np.add.at(size, of[of >= 0], program.tensor_bytes[of >= 0])
    used = of[program.use_tensor]
    np.add.at(use_ps, used[used >= 0], costs.use_ps[used >= 0])
    keys = np.column_stack([entry % 2, size, costs.compute_ps[entry // 2], use_ps])
    return groups(keys[problem.movable]).of


def program_of(evaluator: OneShotEvaluator | GameEvaluator) -> FactoredProgram:
    """Return the program of an evaluator."""
    return Assignments(evaluator) if isinstance(evaluator, OneShotEvaluator) else Games(evaluator)


def fastest(choices: Ints, times_s: NDArray[np.float64]) -> tuple[Ints, NDArray[np.float64]]:
    """Return the `KEPT` fastest of choices int64[N, M], each once, and their times float64[K]."""
    kept: dict[bytes, int] = {}
    for row in np.argsort(times_s, kind="stable").tolist():
        kept.setdefault(choices[row].tobytes(), row)
        if len(kept) == KEPT:
            break
    rows = [*kept.values()]
    return choices[rows], times_s[rows]


def whole_assignments(problem: OneShotProblem, levels: Ints) -> Ints:
    """Return int64[N, 2T] with these levels int64[N, M] where there is a choice, else the backing memory."""
    assignments = np.full((len(levels), problem.num_decisions), problem.task.backing)
    assignments[:, problem.movable] = levels
    return assignments
