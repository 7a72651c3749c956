"""Plans to be measured next: proven ones under fitted costs, and neighbours of the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memplace_agents.exact import Exact
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_agents.search.local_search import neighbour
from memplace_agents.search.preferences import by_role, by_tensor, finished
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.machine.costs import Costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task

ONE_SHOT_GAP, GAME_GAP = 1e-3, 1e-2
"""Gaps at which exact solves under fitted costs end: they are not known better. Our choice."""
SOLVE_WORK = 20.0
"""Work of one exact solve, see `Exact`. Our choice."""
MOST_EXACT = 400
"""Uses in a game above which it is annealed only: the exact agent would take too long. Our choice."""
ANNEALED = 2_000
"""Games under fitted costs before the exact agent begins with the best of them. Our choice."""
SEARCHED, ROUNDS = 500, 20
"""Evaluations under fitted costs before one plan is measured; in one-shot environments in so many rounds, each of which
keeps the best neighbour. Our choice."""


class _UncheckedExact(Exact):
    """The exact agent on a model of the machine, of which only the plan counts."""

    checks = False


class Proposer:
    """Proposes plans for a black box by solving tasks with other costs.

    Args:
        env: that of the black box.
        rng: all randomness.
    """

    def __init__(self, env: OneShotEnv | MallocGameEnv, rng: np.random.Generator) -> None:
        self.task: Task = env.task
        self.is_game = isinstance(env, MallocGameEnv)
        self._rng = rng

    def solved(self, costs: Costs, seconds: float | None = None, best: MemoryPlan | None = None) -> MemoryPlan | None:
        """Return the exact agent's plan under other costs.

        Games are annealed first, and large ones only.

        Args:
            costs: those of the plan.
            seconds: limit of the exact agent, in the place of `SOLVE_WORK`.
            best: where a game's annealing begins; None: with the plans of all rules.
        """
        env = self._env(costs)
        if isinstance(env, OneShotEnv):
            return (
                _UncheckedExact(mip_gap=ONE_SHOT_GAP, work=SOLVE_WORK).solve(env, budget=10**7, time_limit=seconds).plan
            )
        annealed = self._annealed(env, ANNEALED, best)
        if len(self.task.program.use_op) > MOST_EXACT:
            return annealed
        part = GameEvaluator(env, budget=10**7, time_limit=seconds)
        if annealed is not None:
            part.offer(annealed)
        _UncheckedExact(mip_gap=GAME_GAP, work=SOLVE_WORK).run(part, 0)
        return part.incumbent

    def searched(self, costs: Costs, best: MemoryPlan) -> MemoryPlan | None:
        """Return the plan of a short search under other costs, from the best plan, which it may be itself."""
        env = self._env(costs)
        if isinstance(env, MallocGameEnv):
            return self._annealed(env, SEARCHED, best)
        problem, rng = env.problem, self._rng
        current = problem.assignments_of(best.tensor_levels(self.task.program)[None])
        if not len(problem.movable):
            return best
        for _ in range(ROUNDS):
            changed = [neighbour(problem, current[0], rng) for _ in range(SEARCHED // ROUNDS)]
            found = np.concatenate([current, np.stack(changed)])
            current = found[problem.evaluate(found).latency_s.argmin()][None]
        return problem.compile(current[0]).plan

    def _annealed(self, env: MallocGameEnv, budget: int, best: MemoryPlan | None) -> MemoryPlan | None:
        part = GameEvaluator(env, budget=budget)
        if best is not None:
            part.offer(best)
        GameLocalSearch(chains=1).run(part, int(self._rng.integers(2**31)))
        return part.incumbent

    def neighbours(self, costs: Costs, plan: MemoryPlan, count: int) -> MemoryPlan:
        """Return the best of some neighbours of a plan under other costs."""
        env, rng = self._env(costs), self._rng
        if isinstance(env, MallocGameEnv):
            problem = env.problem
            current = preferences_of_plan(problem, plan)
            changed = np.repeat(current[None], count, axis=0).astype(np.int8)
            for row in changed:
                groups = by_tensor(problem) if rng.random() < 0.5 else by_role(problem)
                uses = groups.drawn(rng)
                row[uses] = rng.choice([NO_COPY, COPY, DROP])
            states = finished(problem, changed)
            return problem.plan(states[problem.latency_s(states).argmin()])
        one_shot = env.problem
        assignment = one_shot.assignments_of(plan.tensor_levels(self.task.program)[None])[0]
        if not len(one_shot.movable):
            return plan
        changed = np.stack([neighbour(one_shot, assignment, rng) for _ in range(count)])
        return one_shot.compile(changed[one_shot.evaluate(changed).latency_s.argmin()]).plan

    def _env(self, costs: Costs) -> OneShotEnv | MallocGameEnv:
        """Return an environment of the task in which these costs time plans."""
        task = replace(self.task, costs=costs, simulator=None, whole_costs=None)
        return MallocGameEnv(task) if self.is_game else OneShotEnv(task)
