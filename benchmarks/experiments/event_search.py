"""The search of the experiment `event` that measures every plan on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import Evaluator, GameEvaluator, OneShotEvaluator
from memplace_agents.search.preferences import by_role, by_tensor, finished, first_preferences
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.density import all_density_levels
from memplace_env.placement.memory_plan import MemoryPlan

Choice = NDArray[np.int8]

TEMPERATURE: Final = 0.001
"""At the start of the annealing, as a fraction of the best latency; falls to zero with the square of what is left."""
MOST_LAYERS: Final = 24
"""Most layers of which one move changes the same decision."""
LONGEST_RUN: Final = 8
"""Most tensors, one behind the other, that one move puts into the same memory."""
MOST_STUCK: Final = 2000
"""Moves in a row to plans that were measured before, after which a search ends."""


class Offered(Agent[Evaluator]):
    """Offers plans, and continues with a search from the best of them if there is one."""

    name = "offered"
    formulations = (Formulation.ONE_SHOT, Formulation.GAME)

    def __init__(self, plans: Sequence[MemoryPlan], search: Agent[Any] | None = None) -> None:
        self.plans, self.search = plans, search

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer, then search."""
        for plan in self.plans:
            evaluator.offer(plan)
        if self.search is not None:
            self.search.run(evaluator, seed)


class MachineAnnealing(Agent[Evaluator]):
    """Anneals over levels of tensors, in games over preferred actions; the machine measures every plan once.

    Begins with the best plan so far. `LocalSearch` decides for all weights, or results, of an op together, which some
    plans of tensors cannot be said in; `GameLocalSearch` anneals by the costs, and has a black box judge the best games
    alone.
    """

    name = "machine-annealing"
    formulations = (Formulation.ONE_SHOT, Formulation.GAME)

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Anneal until the budget is spent, or nothing new is found."""
        rng = np.random.default_rng(seed)
        plans = _Games(evaluator) if isinstance(evaluator, GameEvaluator) else _Maps(evaluator)
        known = [(plans.measured(start), start) for start in plans.starts[: evaluator.remaining]]
        latency, current = min(known, key=lambda pair: pair[0])
        scale, stuck = TEMPERATURE * latency, 0
        while evaluator.remaining > 0 and stuck < MOST_STUCK:
            candidate, count = plans.changed(current, rng), evaluator.evaluations
            found = plans.measured(candidate)
            stuck = 0 if evaluator.evaluations > count else stuck + 1
            # Metropolis: an increase d is accepted with probability exp(-d / heat); 1e-300 keeps the logarithm finite.
            if found <= latency - scale * evaluator.fraction_left**2 * np.log(max(rng.random(), 1e-300)):
                current, latency = candidate, found


class _Maps:
    """Plans as levels int8[K]."""

    def __init__(self, evaluator: Any) -> None:
        assert isinstance(evaluator, OneShotEvaluator)
        self._evaluator, self._task = evaluator, evaluator.env.task
        program = self._task.program
        self._movable = np.flatnonzero(program.is_placeable)
        self._known: dict[bytes, float] = {}
        best = evaluator.incumbent
        first = all_density_levels(self._task) if best is None else best.tensor_levels(program)[None]
        self.starts: Sequence[Choice] = list(first.astype(np.int8))

    def measured(self, levels: Choice) -> float:
        """Return the latency of a plan, in seconds."""
        key = levels.tobytes()
        if key not in self._known:
            self._known[key] = self._evaluator.offer(place_levels(self._task, levels).plan).latency_s
        return self._known[key]

    def changed(self, levels: Choice, rng: np.random.Generator) -> Choice:
        """Return levels one move away: one or two tensors, or a run of weights or of results, go to a level each."""
        result, count = levels.copy(), self._task.accelerator.num_levels
        if rng.random() < 0.5:
            for tensor in self._movable[rng.integers(len(self._movable), size=rng.integers(1, 3))]:
                result[tensor] = rng.integers(count)
            return result
        kinds = self._task.program.tensor_kind[self._movable]
        first = rng.integers(len(self._movable))
        alike = self._movable[first:][kinds[first:] == kinds[first]]
        result[alike[: rng.integers(2, LONGEST_RUN + 1)]] = rng.integers(count)
        return result


class _Games:
    """Plans as preferred actions int8[U]."""

    def __init__(self, evaluator: GameEvaluator) -> None:
        self._evaluator, self._problem = evaluator, evaluator.env.problem
        self._tensors, self._roles = by_tensor(self._problem), by_role(self._problem)
        self._known: dict[bytes, float] = {}
        self.starts: Sequence[Choice] = list(first_preferences(self._problem, evaluator.incumbent))

    def measured(self, preferences: Choice) -> float:
        """Return the latency of a game, in seconds."""
        states = finished(self._problem, preferences[None])
        key = states.tobytes()
        if key not in self._known:
            self._known[key] = float(self._evaluator.offer_states(states)[0])
        return self._known[key]

    def changed(self, preferences: Choice, rng: np.random.Generator) -> Choice:
        """Return preferences one move away: another action for a use, its tensor's later uses, or its role's next."""
        result, use, kind = preferences.copy(), int(rng.integers(len(preferences))), rng.integers(3)
        if kind == 0:
            result[use] = (result[use] + rng.integers(1, 3)) % 3
            return result
        kin = self._tensors if kind == 1 else self._roles
        members = kin.members[kin.ptr[kin.of[use]] : kin.ptr[kin.of[use] + 1]]
        most = len(members) if kind == 1 else int(rng.integers(2, MOST_LAYERS + 1))
        result[members[members >= use][:most]] = rng.integers(3)
        return result
