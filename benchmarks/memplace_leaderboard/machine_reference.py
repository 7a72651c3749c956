"""The judge's reference on a drawn machine: a fast plan, found with the machine's own costs and without noise."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import gymnasium as gym
import numpy as np

from memplace_agents import Exact, LocalSearch
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator, evaluator_for
from memplace_agents.search.preferences import by_role, by_tensor, finished, first_preferences
from memplace_agents.solution import Solution
from memplace_env.envs.registration import formulation_of_id
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_leaderboard.drawn_machines import DrawnMachine
from memplace_leaderboard.pinned import baseline_plan, make_env, task_of

PLANS: Final = 1000
"""Plans that a search for a reference evaluates on the machine."""
SOLVE_WORK: Final = 3.0
"""Work of each of its two exact solves, under the nominal and under the machine's costs: the same for every judge."""
GAP: Final = 1e-3
"""Gap at which they end: costs that are added up do not say more of a machine."""
TEMPERATURE: Final = 0.0005
"""At the start of the annealing of games, as a share of the latency; falls to zero with the square of what is left."""
LONGEST: Final = 8
"""Most uses of a group that one move changes, unless it changes all."""


def find_reference(machine: DrawnMachine, env_id: str) -> Solution:
    """Return the fastest plan that a fixed amount of work finds on a machine.

    The plans of the baseline and of the rules without search, and the exact ones under the nominal and under the
    machine's added costs are timed on the machine; annealing on it from the fastest evaluates the rest of `PLANS`. All
    constants are our choice.

    Args:
        machine: the machine, without noise.
        env_id: the environment.
    """
    env, formulation = make_env(env_id, machine), formulation_of_id(env_id)
    evaluator = evaluator_for(env, (formulation,), budget=PLANS)
    inside: Any = gym.make(
        formulation.traits.env_id(), workload=machine.additive_task(task_of(env_id)), disable_env_checker=True
    )
    for plan in (*_nominal_plans(env_id), _solved(inside)):
        if plan is not None:
            evaluator.offer(plan)
    if isinstance(evaluator, GameEvaluator):
        _anneal_games(evaluator)
    elif isinstance(evaluator, OneShotEvaluator):
        LocalSearch().run(evaluator, 0)
    return evaluator.solution("reference", 0)


@lru_cache(maxsize=1)
def _nominal_plans(env_id: str) -> list[MemoryPlan | None]:
    """Return plans that no machine's costs change."""
    env: Any = make_env(env_id)
    baseline = baseline_plan(task_of(env_id), formulation_of_id(env_id))
    return [baseline, *cheap_plans(env.unwrapped.problem).values(), _solved(env)]


def _solved(env: Any) -> MemoryPlan | None:
    return Exact(mip_gap=GAP, work=SOLVE_WORK).solve(env).plan


def _anneal_games(evaluator: GameEvaluator) -> None:
    """Anneal games on the machine; a move changes what is preferred for uses of one tensor, or of one role."""
    problem, rng = evaluator.env.problem, np.random.default_rng(0)
    starts = first_preferences(problem, evaluator.incumbent)
    latencies = evaluator.offer_states(finished(problem, starts))
    current, latency_s = starts[latencies.argmin()], latencies.min()
    kinds = by_tensor(problem), by_role(problem)
    while evaluator.remaining > 0:
        members = kinds[rng.integers(2)].drawn(rng)
        if rng.random() < 0.5:
            first = rng.integers(len(members))
            members = members[first : first + rng.integers(1, LONGEST + 1)]
        changed = current.copy()
        changed[members] = rng.integers(3)
        measured_s = evaluator.offer_states(finished(problem, changed[None]))[0]
        heat = TEMPERATURE * latency_s * evaluator.fraction_left**2
        # Metropolis, as in `LocalSearch`.
        if measured_s <= latency_s - heat * np.log(max(rng.random(), 1e-300)):
            current, latency_s = changed, measured_s
