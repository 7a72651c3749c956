"""Beyond the paper: annealing the best map, with moves guided by where its time goes.

A map asks; the compiler gives what fits. So a map can improve in two ways: a decision steps back from a level that
saves its ops little, and the room goes to the next in line; or it asks for a level that would save its ops much.
Which those are can be read off the cost tables, for one decision at a time, as if there were no capacities. The
proposals lean on that; whether they help, the evaluation tells. Where a black box judges, the cost arrays still
propose.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agents.evaluator import MapEvaluator
from agents.heuristic.local_search import AGAIN, measured_again, neighbour
from agents.learning.saved import below, like
from agents.saved import optional, whole
from memplace_env.compiler.savings import move_costs
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.threads import cached_property
from memplace_env.units import PS

_GUIDED, _BACK, _FORTH = 0.8, 0.3, 0.2
"""Share of moves that are guided; among those, shares of steps back, of demands, and the rest: one of each."""

_CHEAP = 0.0005
"""Share of native's latency that a step back may cost before it becomes e times rarer."""

_THOROUGH = 10
"""Proposals for each decision from which on the slower and more thorough kind of chain pays."""

_HEAT, _THOROUGH_HEAT = 0.002, 0.012
"""First temperature, as a share of native's latency; falls to zero with the square of what is left of the chain."""

_LAST = 0.8
"""Share of the chain after which it goes on from the fastest map that anybody met."""


class _Stand(NamedTuple):
    """A map int64[S], its seconds, and the levels int8[K] that the compiler granted."""

    entries: NDArray[np.int64]
    latency_s: float
    level: NDArray[np.int8]


class _Moves(NamedTuple):
    """Decisions int[n] that could move, where to int64[n], and how likely float64[n] in proportion."""

    able: NDArray[np.intp]
    to: NDArray[np.int64]
    weight: NDArray[np.float64]


class Refiner:
    """Simulated annealing of one map, a proposal at a time.

    A demand asks for a faster level than either what the map asks for, or what the compiler granted. The first keeps
    standing wishes, so that room which becomes free is taken at once: it is fast. The second lets go of wishes that
    were never granted and needs hotter chains, but ends higher where there are proposals enough: on the twelve
    registered workloads with 3,200 proposals, wherever a decision has ten of them or more.

    Args:
        problem: what to map.
        proposals: how many there will be in all.

    Attributes:
        can_move: whether any decision has a choice.
    """

    def __init__(self, problem: OneShotProblem, proposals: int) -> None:
        self._problem, self._proposals, self._made = problem, max(proposals, 1), 0
        self._movable = np.flatnonzero(problem.mask.sum(axis=1) > 1)
        self.can_move = len(self._movable) > 0
        self._thorough = proposals >= _THOROUGH * len(self._movable)
        self._native_s = problem.native_report.latency_s
        self._state = _Stand(problem.native_map, np.inf, np.zeros(problem.program.num_tensors, dtype=np.int8))
        self._best = self._state

    @property
    def best(self) -> NDArray[np.int64]:
        """int64[S], the fastest map met."""
        return self._best.entries

    def offer(self, entries: NDArray[np.int64], latency_s: float, level: NDArray[np.int8]) -> None:
        """A map int64[S] from elsewhere that compiled to levels int8[K]: the start, or perhaps the best met.

        A chain that is under way is not moved: being sent back to the best map while hot would only make it greedy.
        """
        offered = _Stand(entries.copy(), latency_s, level.copy())
        if np.isinf(self._state.latency_s):
            self._stand(*offered)
        if latency_s < self._best.latency_s:
            self._best = offered

    def step(self, rng: np.random.Generator, evaluator: MapEvaluator) -> None:
        """Evaluate one proposal, and go there if it is faster, or not much slower; now and then where it stands."""
        if self._made == int(_LAST * self._proposals):
            self._stand(*self._best)
        if evaluator.noisy and self._made % AGAIN == AGAIN - 1:
            self._measure_again(evaluator)
            return
        left = max(1 - self._made / self._proposals, 0)
        heat = (_THOROUGH_HEAT if self._thorough else _HEAT) * self._native_s * left**2
        proposal = self._propose(rng)
        slower = -heat * np.log(max(rng.random(), 1e-300))
        result = evaluator(proposal[None])
        self._made += 1
        if len(result.reward):
            latency_s = result.latency_s[0].item()
            if latency_s <= self._state.latency_s + slower:
                self._stand(proposal, latency_s, result.level[0])
            if latency_s < self._best.latency_s:
                self._best = self._state

    def _measure_again(self, evaluator: MapEvaluator) -> None:
        """Correct what is thought of the current map, so that the chain does not stay for a lucky measurement."""
        self._made += 1
        again = evaluator(self._state.entries[None])
        self._state = self._state._replace(latency_s=measured_again(self._state.latency_s, again))
        if np.array_equal(self._best.entries, self._state.entries):
            self._best = self._state

    def _propose(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """A neighbour int64[S] of the current map."""
        current = self._state.entries
        if rng.random() >= _GUIDED:
            return neighbour(self._problem, current, self._movable, rng)
        kind, changed = rng.random(), current.copy()
        exchange = kind >= _BACK + _FORTH
        moves = [True, False] if exchange else [kind < _BACK] * int(rng.integers(1, 3))
        for step_back in moves:
            asked = self._granted if step_back or self._thorough else changed
            able, to, weight = self._steps_back(asked) if step_back else self._demands(rng, asked)
            if len(able):
                chosen = rng.choice(len(able), p=weight / weight.sum())
                changed[able[chosen]] = to[chosen]
        return changed

    def _stand(self, entries: NDArray[np.int64], latency_s: float, level: NDArray[np.int8]) -> _Stand:
        self._state = _Stand(entries.copy(), latency_s, level.copy())
        for name in ("_cost", "_granted"):
            self.__dict__.pop(name, None)
        return self._state

    @cached_property
    def _cost(self) -> NDArray[np.float64]:
        """Seconds float64[2T, L] that the program gets slower if one decision moves to another level."""
        problem, cost = self._problem, np.zeros((self._problem.map_size, self._problem.accelerator.num_levels))
        decided = problem.slot >= 0
        np.add.at(cost, problem.slot[decided], move_costs(problem.task, self._state.level)[decided] * PS)
        return cost

    @cached_property
    def _granted(self) -> NDArray[np.int64]:
        granted: NDArray[np.int64] = self._problem.maps_of(self._state.level[None])[0]
        return granted

    def _steps_back(self, asked: NDArray[np.int64]) -> _Moves:
        able = self._movable[asked[self._movable] < self._problem.accelerator.backing]
        to = asked[able] + 1
        return _Moves(able, to, np.exp(-np.clip(self._cost[able, to] / (_CHEAP * self._native_s), 0, 50)))

    def _demands(self, rng: np.random.Generator, asked: NDArray[np.int64]) -> _Moves:
        able = self._movable[asked[self._movable] > 0]
        to = np.zeros(len(able), dtype=np.int64) if rng.random() < 0.5 else asked[able] - 1
        saved = np.clip(-self._cost[able, to], 0, None)
        return _Moves(able, to, saved + 1e-3 * max(saved.max(initial=0), 1e-12))

    def state_dict(self) -> dict[str, Any]:
        """Where it stands, and the best it met."""
        return {"made": self._made, "now": _saved(self._state), "best": _saved(self._best)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self._best = self._stand(*self._loaded(state["best"]))
        self._stand(*self._loaded(state["now"]))
        self._made = whole(state["made"])

    def _loaded(self, saved: list[Any]) -> _Stand:
        entries, latency_s, level = saved
        levels = self._problem.accelerator.num_levels
        return _Stand(
            below(like(entries, self._state.entries), levels),
            optional(latency_s, 0.0) or np.inf,
            below(like(level, self._state.level), levels),
        )


def _saved(stand: _Stand) -> list[Any]:
    latency_s = None if np.isinf(stand.latency_s) else float(stand.latency_s)
    return [torch.from_numpy(stand.entries), latency_s, torch.from_numpy(stand.level)]
