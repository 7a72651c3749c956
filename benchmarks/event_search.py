"""Searches of `benchmarks.event` that measure every plan on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from memplace_agents.base import Agent
from memplace_agents.evaluator import Evaluator, GameEvaluator
from memplace_agents.game.preferences import Groups, Preferences, by_role, by_tensor, finished, first_preferences
from memplace_env.envs.registration import Formulation
from memplace_env.placement.memory_plan import MemoryPlan

TEMPERATURE = 0.001
"""At the start of the annealing, as a fraction of the best latency; falls to zero with the square of what is left."""
MOST_LAYERS = 24
"""Most layers of which one move changes the same decision."""
MOST_STUCK = 2000
"""Moves in a row that lead to no other game, after which a search ends."""


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


class MachineAnnealing(Agent[GameEvaluator]):
    """Anneals over preferred actions as `GameLocalSearch` does, but the machine says how long each game takes.

    That agent anneals by the rules of the game, and lets a black box judge the best games alone.
    """

    name = "machine-annealing"
    formulations = (Formulation.GAME,)

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Anneal until the budget is spent."""
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        starts = first_preferences(problem, evaluator.incumbent)[: evaluator.remaining]
        states = finished(problem, starts)
        latencies = evaluator.offer_states(states)
        best = int(latencies.argmin())
        current, state, latency = starts[best], states[best], latencies[best]
        groups, scale, stuck = (by_tensor(problem), by_role(problem)), TEMPERATURE * latency, 0
        while evaluator.remaining > 0 and stuck < MOST_STUCK:
            candidate = changed(current, groups, rng)
            found = finished(problem, candidate[None])
            stuck += 1
            if np.array_equal(found[0], state):  # the same game; the machine need not time it again
                current = candidate
                continue
            stuck, measured = 0, evaluator.offer_states(found)[0]
            heat = scale * evaluator.fraction_left**2
            if measured <= latency - heat * np.log(max(rng.random(), 1e-300)):
                current, state, latency = candidate, found[0], measured


def changed(preferences: Preferences, groups: tuple[Groups, Groups], rng: np.random.Generator) -> Preferences:
    """Return preferences one move away: another action for a use, its tensor's later uses, or its role's next ones."""
    tensors, roles = groups
    result, use, kind = preferences.copy(), int(rng.integers(len(preferences))), rng.integers(3)
    if kind == 0:
        result[use] = (result[use] + rng.integers(1, 3)) % 3
        return result
    kin = tensors if kind == 1 else roles
    members = kin.members[kin.ptr[kin.of[use]] : kin.ptr[kin.of[use] + 1]]
    most = len(members) if kind == 1 else int(rng.integers(2, MOST_LAYERS + 1))
    result[members[members >= use][:most]] = rng.integers(3)
    return result
