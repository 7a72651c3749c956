"""Beyond the paper: annealing of the best assignment, with proposals that a surrogate has ranked.

A proposal is the end of a short chain of annealing on the surrogate, which makes many moves and costs no evaluation. It
is evaluated, and accepted or not by what the surrogate did not predict: delayed acceptance (Christen and Fox, 2005), so
that a wrong surrogate costs time but misleads nothing. Where predictions fail, chains get shorter: a trust region.
Other proposals are neighbours as in local search, which the surrogate has not seen; the kind that has gained more of
late comes more often.

In shapes `S` denotes the decisions of an assignment and `K` the tensors of the program.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.egrl.surrogate import Surrogate
from memplace_agents.learning.saved_tensors import below, like
from memplace_agents.saved_values import optional, whole
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.search.local_search import AGAIN, measured_again, neighbour

_HOTTEST, _COLDEST = 0.002, 0.00001
"""First and last temperature, as fractions of native's latency; every decade takes as long, as it is not known which
one decides. These and the other constants are our choice, from trials on the three paper workloads and others."""
_CYCLE = 1200
"""About so many proposals make one chain from hot to cold; several chains end at several assignments."""
_LAST = 0.8
"""Fraction of the last chain after which it goes on from the fastest assignment evaluated anywhere."""
_LEAST_MOVES, _MOST_EACH = 200_000, 30
"""Moves on the surrogate in all, where the proposals are too few for that by themselves, and most of one proposal for
each decision with a choice."""
_TOLERANCE = 0.0002
"""Fraction of native's latency by which a proposal may be slower than predicted before chains get shorter."""
_MEMORY, _LEAST_GAIN = 0.05, 1e-5
"""Weight of the last proposal in the mean gain of its kind, by which kinds are drawn, and the least mean, both as
fractions of native's latency."""
_TRIES = 8
"""Chains that are tried until one ends elsewhere than it began."""


class _Point(NamedTuple):
    """An assignment int64[S], its seconds, and the levels int8[K] that the compiler granted."""

    assignment: NDArray[np.int64]
    latency_s: float
    level: NDArray[np.int8]


class Refiner:
    """Simulated annealing of one assignment, a proposal at a time.

    Args:
        evaluator: evaluates the program.
        surrogate: the model of the program.
        proposals: how many there will be in all.
        moves: moves on the surrogate for each proposal; 0: one move, whose time the surrogate does not look at.

    Attributes:
        can_move: whether any decision has a choice.
    """

    def __init__(self, evaluator: OneShotEvaluator, surrogate: Surrogate, proposals: int, moves: int) -> None:
        self._evaluator, self._surrogate = evaluator, surrogate
        problem = evaluator.env.problem
        self._proposals, self._steps = max(proposals, 1), 0
        self._ranks = moves > 0
        most = max(moves, _LEAST_MOVES // self._proposals)
        self._most = max(min(most, _MOST_EACH * len(problem.movable)), 1)
        self._moves = self._most
        self.can_move = len(problem.movable) > 0
        self._native_s = problem.native_report.latency_s
        nothing = np.full(problem.program.num_tensors, problem.accelerator.backing, dtype=np.int8)
        self._current = self._best = _Point(problem.native_assignment, np.inf, nothing)
        self._gains = np.ones(2)

    @property
    def best(self) -> NDArray[np.int64]:
        """int64[S], the fastest assignment so far."""
        return self._best.assignment

    def offer(self, assignment: NDArray[np.int64], latency_s: float, level: NDArray[np.int8]) -> None:
        """Take an assignment int64[S] from elsewhere, which compiled to levels int8[K], as start or as the best.

        A chain that is under way is not moved: sent back to the best assignment while hot it would only be greedy.
        """
        if latency_s < self._best.latency_s:
            self._best = _Point(assignment.copy(), latency_s, level.copy())
            if self._steps == 0:
                self._current = self._best

    def step(self, rng: np.random.Generator) -> None:
        """Evaluate one proposal, and go on from there if it is about as fast as predicted.

        Where measurements are noisy, some of the steps measure the current assignment again instead.
        """
        chains = max(round(self._proposals / _CYCLE), 1)
        if self._steps == int((chains - 1 + _LAST) / chains * self._proposals):
            self._current = self._best
        self._steps += 1
        if self._evaluator.noisy and self._steps % AGAIN == 0:
            self._measure_again()
            return
        progress = chains * self._steps / self._proposals
        progress = progress % 1 if progress < chains else 1.0
        heat_s = self._native_s * _HOTTEST * (_COLDEST / _HOTTEST) ** progress
        ranked = self._ranks and rng.random() < self._gains[1] / self._gains.sum()
        proposal, expected_s = self._ranked(rng, heat_s) if ranked else self._neighbour(rng)
        slower_s = -heat_s * np.log(max(rng.random(), 1e-300))
        result = self._evaluator(proposal[None])
        if not len(result.reward):
            return
        self._surrogate.observe(result.level, result.latency_s)
        latency_s = result.latency_s[0].item()
        gain = max(self._current.latency_s - latency_s, 0.0) / self._native_s
        self._gains[int(ranked)] = max((1 - _MEMORY) * self._gains[int(ranked)] + _MEMORY * gain, _LEAST_GAIN)
        if ranked:
            good = latency_s - expected_s <= _TOLERANCE * self._native_s
            self._moves = min(2 * self._moves, self._most) if good else max(self._moves // 2, 1)
        point = _Point(proposal, latency_s, result.level[0].copy())
        if latency_s - expected_s <= slower_s:
            self._current = point
        if latency_s < self._best.latency_s:
            self._best = point

    def _neighbour(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], float]:
        """Return a neighbour int64[S] of the current assignment, and the seconds that it may take: as many."""
        current = self._current
        return neighbour(self._evaluator.env.problem, current.assignment, rng), current.latency_s

    def _ranked(self, rng: np.random.Generator, heat_s: float) -> tuple[NDArray[np.int64], float]:
        """Return the end int64[S] of a chain on the surrogate, and the seconds that it may take.

        These are the surrogate's, and what the current assignment takes more or less than the surrogate's.
        """
        current = self._current
        for _ in range(_TRIES):
            seed = int(rng.integers(2**31))
            proposal, slower_s = self._surrogate.annealed(current.assignment, current.level, self._moves, heat_s, seed)
            if not np.array_equal(proposal, current.assignment):
                break
        return proposal, current.latency_s + slower_s

    def _measure_again(self) -> None:
        """Correct the latency of the current assignment, so that the chain does not stay for a lucky measurement."""
        again = self._evaluator(self._current.assignment[None])
        self._surrogate.observe(again.level, again.latency_s)
        is_best = self._best is self._current
        self._current = self._current._replace(latency_s=measured_again(self._current.latency_s, again))
        if is_best:
            self._best = self._current

    def state_dict(self) -> dict[str, Any]:
        """Return the current point and the best, as tensors and plain values."""
        points = {"now": _saved(self._current), "best": _saved(self._best)}
        kinds = {"moves": self._moves, "gains": torch.from_numpy(self._gains.copy())}
        return {"made": self._steps, "same": self._best is self._current, **kinds, **points}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self._best, self._current = self._loaded(state["best"]), self._loaded(state["now"])
        if state["same"]:
            self._current = self._best
        self._steps, self._moves = whole(state["made"]), whole(state["moves"], 1)
        self._gains = like(state["gains"], self._gains)
        if (self._gains <= 0).any():
            raise ValueError("a gain is not above 0")

    def _loaded(self, saved: list[Any]) -> _Point:
        assignment, latency_s, level = saved
        levels = self._evaluator.env.accelerator.num_levels
        return _Point(
            below(like(assignment, self._current.assignment), levels),
            optional(latency_s, 0.0) or np.inf,
            below(like(level, self._current.level), levels),
        )


def _saved(point: _Point) -> list[Any]:
    latency_s = None if np.isinf(point.latency_s) else float(point.latency_s)
    return [torch.from_numpy(point.assignment), latency_s, torch.from_numpy(point.level)]
