"""Beyond the paper: annealing of the best assignment, with moves guided by where its time is lost.

An assignment requests levels; the compiler grants those that fit. So an assignment can improve in two ways: a decision
steps back from a level that saves its ops little, and the space goes to the next in line; or it requests a level that
would save its ops much. Both can be read off the cost arrays, for one decision at a time, as if there were no
capacities. The proposals rely on that, and are evaluated like any others. With a black box, too, the cost arrays guide
the proposals.

In shapes `S` denotes the decisions of an assignment, `K` the tensors of the program and `L` the levels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.evaluator import OneShotEvaluator
from memplace_agents.heuristic.local_search import AGAIN, measured_again, neighbour
from memplace_agents.learning.saved_tensors import below, like
from memplace_agents.saved_values import optional, whole
from memplace_env._lib.threads import cached_property
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.placement.compiler.savings import move_costs

_GUIDED = 0.8
"""Fraction of the moves that are guided; the others are those of local search."""
_BACK, _FORTH = 0.3, 0.2
"""Fractions of the guided moves that are steps back, and that are demands; the rest is one of each."""

_CHEAP = 0.0005
"""Fraction of native's latency that a step back may cost before it becomes e times rarer."""

_THOROUGH = 10
"""Proposals for each decision from which on the slower and more thorough kind of chain ends higher."""

_HEAT, _THOROUGH_HEAT = 0.002, 0.012
"""First temperature, as a fraction of native's latency; falls to zero with the square of the rest of the chain."""

_LAST = 0.8
"""Fraction of the chain after which it goes on from the fastest assignment evaluated anywhere."""


class _Point(NamedTuple):
    """An assignment int64[S], its seconds, and the levels int8[K] that the compiler granted."""

    assignment: NDArray[np.int64]
    latency_s: float
    level: NDArray[np.int8]


class _Moves(NamedTuple):
    """Candidate moves: decisions int[n], their new levels int64[n], and weights float64[n] of a random choice."""

    decision: NDArray[np.intp]
    to: NDArray[np.int64]
    weight: NDArray[np.float64]


class Refiner:
    """Simulated annealing of one assignment, a proposal at a time.

    A demand requests a faster level than either the assignment requests or the compiler granted. The first keeps
    requests that were not granted, so that space which becomes free is taken at once: it is fast. The second drops
    them and needs hotter chains, but ends higher where there are proposals enough: on the twelve registered workloads
    with 3,200 proposals, wherever a decision has ten of them or more.

    Args:
        problem: the one-shot problem.
        proposals: how many there will be in all.

    Attributes:
        can_move: whether any decision has a choice.
    """

    def __init__(self, problem: OneShotProblem, proposals: int) -> None:
        self._problem, self._proposals, self._steps = problem, max(proposals, 1), 0
        self._movable = problem.movable
        self.can_move = len(self._movable) > 0
        self._thorough = proposals >= _THOROUGH * len(self._movable)
        self._native_s = problem.native_report.latency_s
        self._current = _Point(problem.native_assignment, np.inf, np.zeros(problem.program.num_tensors, dtype=np.int8))
        self._best = self._current

    @property
    def best(self) -> NDArray[np.int64]:
        """int64[S], the fastest assignment so far."""
        return self._best.assignment

    def offer(self, assignment: NDArray[np.int64], latency_s: float, level: NDArray[np.int8]) -> None:
        """Take an assignment int64[S] from elsewhere, which compiled to levels int8[K], as start or as the best.

        A chain that is under way is not moved: sent back to the best assignment while hot it would only be greedy.
        """
        offered = _Point(assignment.copy(), latency_s, level.copy())
        if np.isinf(self._current.latency_s):
            self._move_to(*offered)
        if latency_s < self._best.latency_s:
            self._best = offered

    def step(self, rng: np.random.Generator, evaluator: OneShotEvaluator) -> None:
        """Evaluate one proposal, and move there if it is faster or not much slower.

        Where measurements are noisy, some of the steps measure the current assignment again instead.
        """
        if self._steps == int(_LAST * self._proposals):
            self._move_to(*self._best)
        if evaluator.noisy and self._steps % AGAIN == AGAIN - 1:
            self._measure_again(evaluator)
            return
        left = max(1 - self._steps / self._proposals, 0)
        heat = (_THOROUGH_HEAT if self._thorough else _HEAT) * self._native_s * left**2
        proposal = self._propose(rng)
        slower = -heat * np.log(max(rng.random(), 1e-300))
        result = evaluator(proposal[None])
        self._steps += 1
        if len(result.reward):
            latency_s = result.latency_s[0].item()
            if latency_s <= self._current.latency_s + slower:
                self._move_to(proposal, latency_s, result.level[0])
            if latency_s < self._best.latency_s:
                self._best = self._current

    def _measure_again(self, evaluator: OneShotEvaluator) -> None:
        """Correct the latency of the current assignment, so that the chain does not stay for a lucky measurement."""
        self._steps += 1
        again = evaluator(self._current.assignment[None])
        self._current = self._current._replace(latency_s=measured_again(self._current.latency_s, again))
        if np.array_equal(self._best.assignment, self._current.assignment):
            self._best = self._current

    def _propose(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return a neighbour int64[S] of the current assignment."""
        current = self._current.assignment
        if rng.random() >= _GUIDED:
            return neighbour(self._problem, current, rng)
        kind, changed = rng.random(), current.copy()
        exchange = kind >= _BACK + _FORTH
        # Whether each move is a step back: one of each kind, or one or two of the same.
        moves = [True, False] if exchange else [kind < _BACK] * int(rng.integers(1, 3))
        for step_back in moves:
            levels = self._granted if step_back or self._thorough else changed
            decision, to, weight = self._steps_back(levels) if step_back else self._demands(rng, levels)
            if len(decision):
                chosen = rng.choice(len(decision), p=weight / weight.sum())
                changed[decision[chosen]] = to[chosen]
        return changed

    def _move_to(self, assignment: NDArray[np.int64], latency_s: float, level: NDArray[np.int8]) -> _Point:
        self._current = _Point(assignment.copy(), latency_s, level.copy())
        for name in ("_cost", "_granted"):  # cached for the assignment that is left
            self.__dict__.pop(name, None)
        return self._current

    @cached_property
    def _cost(self) -> NDArray[np.float64]:
        """Seconds float64[2T, L] that the program gets slower if one decision moves to another level."""
        problem, cost = self._problem, np.zeros((self._problem.num_decisions, self._problem.accelerator.num_levels))
        decided = problem.decision_of >= 0
        np.add.at(cost, problem.decision_of[decided], move_costs(problem.task, self._current.level)[decided] * PS)
        return cost

    @cached_property
    def _granted(self) -> NDArray[np.int64]:
        """int64[S], the levels that the compiler granted the decisions."""
        granted: NDArray[np.int64] = self._problem.assignments_of(self._current.level[None])[0]
        return granted

    def _steps_back(self, levels: NDArray[np.int64]) -> _Moves:
        """Return moves one level down from levels int64[S], the likelier the less time they cost."""
        decision = self._movable[levels[self._movable] < self._problem.accelerator.backing]
        to = levels[decision] + 1
        return _Moves(decision, to, np.exp(-np.clip(self._cost[decision, to] / (_CHEAP * self._native_s), 0, 50)))

    def _demands(self, rng: np.random.Generator, levels: NDArray[np.int64]) -> _Moves:
        """Return moves from levels int64[S] to the fastest level or one level up, the likelier the more they save."""
        decision = self._movable[levels[self._movable] > 0]
        to = np.zeros(len(decision), dtype=np.int64) if rng.random() < 0.5 else levels[decision] - 1
        saved = np.clip(-self._cost[decision, to], 0, None)
        # A thousandth of the greatest saving on top, so that moves that save nothing are possible.
        return _Moves(decision, to, saved + 1e-3 * max(saved.max(initial=0), 1e-12))

    def state_dict(self) -> dict[str, Any]:
        """Return the current point and the best, as tensors and plain values."""
        return {"made": self._steps, "now": _saved(self._current), "best": _saved(self._best)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self._best = self._move_to(*self._loaded(state["best"]))
        self._move_to(*self._loaded(state["now"]))
        self._steps = whole(state["made"])

    def _loaded(self, saved: list[Any]) -> _Point:
        assignment, latency_s, level = saved
        levels = self._problem.accelerator.num_levels
        return _Point(
            below(like(assignment, self._current.assignment), levels),
            optional(latency_s, 0.0) or np.inf,
            below(like(level, self._current.level), levels),
        )


def _saved(point: _Point) -> list[Any]:
    latency_s = None if np.isinf(point.latency_s) else float(point.latency_s)
    return [torch.from_numpy(point.assignment), latency_s, torch.from_numpy(point.level)]
