"""Plans to be measured next: cheap ones, proven ones under fitted costs, and neighbours of the best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from memplace_agents.evaluator import Evaluator, GameEvaluator, OneShotEvaluator
from memplace_agents.exact import Exact
from memplace_agents.game.game_local_search import GameLocalSearch
from memplace_agents.game.preferences import by_role, by_tensor, finished, greedy_preferences
from memplace_agents.heuristic.local_search import LocalSearch, neighbour
from memplace_agents.xla_msa import PUBLIC_SETS, default_plan
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.machine.costs import Costs
from memplace_env.placement.compiler import HEURISTICS, all_backing, place_levels
from memplace_env.placement.compiler.density import all_density_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task

GAP = 1e-3
"""Gap at which an exact solve under fitted costs ends: they are not known better. Our choice."""
SEARCHED = {True: 500, False: 1_000}
"""Evaluations under fitted costs before one plan is measured: games, one-shot assignments. Our choice."""


class Proposer:
    """Proposes plans for a black box by solving tasks with other costs.

    Args:
        evaluator: that of the black box.
        rng: all randomness.
    """

    def __init__(self, evaluator: Evaluator, rng: np.random.Generator) -> None:
        self.task: Task = evaluator.env.task
        self.is_game = isinstance(evaluator, GameEvaluator)
        self._rng = rng

    def nominal(self) -> Costs:
        """Return the costs of the task itself."""
        return self.task.costs

    def cheap(self) -> Iterator[MemoryPlan]:
        """Yield the plans of rules that take next to no time, those that are mostly best first."""
        if self.is_game:
            env = self._env(self.task.costs)
            assert isinstance(env, MallocGameEnv)
            yield from (default_plan(env.task, public.options) for public in PUBLIC_SETS)
            yield env.problem.plan(finished(env.problem, greedy_preferences(env.problem)[None])[0])
            yield all_backing(env.task)
            return
        nominal = replace(self.task, simulator=None)
        variants = all_density_levels(nominal)
        yield place_levels(nominal, variants[0]).plan
        yield from (rule(nominal) for rule in HEURISTICS.values())
        yield from (place_levels(nominal, levels).plan for levels in variants[1:])

    def solved(self, costs: Costs, seconds: float | None) -> MemoryPlan | None:
        """Return the exact agent's plan under other costs; `seconds` is a guard."""
        found = Exact(mip_gap=GAP).solve(self._env(costs), budget=10**7, time_limit=seconds)
        return found.plan

    def searched(self, costs: Costs, best: MemoryPlan) -> MemoryPlan | None:
        """Return the plan of a short annealing under other costs, from the best plan, which it may be itself."""
        env, budget, seed = self._env(costs), SEARCHED[self.is_game], int(self._rng.integers(2**31))
        part: Any = (GameEvaluator if self.is_game else OneShotEvaluator)(env, budget=budget)
        part.offer(best)
        (GameLocalSearch(chains=1) if self.is_game else LocalSearch()).run(part, seed)
        plan: MemoryPlan | None = part.incumbent
        return plan

    def neighbours(self, costs: Costs, plan: MemoryPlan, count: int) -> MemoryPlan:
        """Return the best of some neighbours of a plan under other costs."""
        env, rng = self._env(costs), self._rng
        if isinstance(env, MallocGameEnv):
            problem = env.problem
            current = preferences_of_plan(problem, plan)
            changed = np.repeat(current[None], count, axis=0).astype(np.int8)
            for row in changed:
                groups = by_tensor(problem) if rng.random() < 0.5 else by_role(problem)
                group = rng.integers(len(groups.ptr) - 1)
                row[groups.members[groups.ptr[group] : groups.ptr[group + 1]]] = rng.choice([NO_COPY, COPY, DROP])
            states = finished(problem, changed)
            return problem.plan(states[problem.latency_s(states).argmin()])
        one_shot = env.problem
        assignment = one_shot.assignments_of(plan.tensor_levels(self.task.program)[None])[0]
        movable = np.flatnonzero(one_shot.mask.sum(axis=1) > 1)
        if not len(movable):
            return plan
        changed = np.stack([neighbour(one_shot, assignment, movable, rng) for _ in range(count)])
        return one_shot.compile(changed[one_shot.evaluate(changed).latency_s.argmin()]).plan

    def _env(self, costs: Costs) -> OneShotEnv | MallocGameEnv:
        """Return an environment of the task in which these costs time plans."""
        task = replace(self.task, costs=costs, simulator=None, whole_costs=None)
        return MallocGameEnv(task) if self.is_game else OneShotEnv(task)
