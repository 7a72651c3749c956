"""Plans replayed as games: exactly where they are of games, else with little loss."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_agents import Exact
from memplace_agents.search.preferences import finished
from memplace_agents.xla_msa import PUBLIC_SETS, default_plan
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.malloc_game.state import COPY, DROP, ESTIMATE, NO_COPY
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import time_plan
from memplace_env.placement.task import Task
from tests.strategies import game_tasks, programs
from tests.subjects import plan_with_copies
from tests.thorough import examples


def replayed_ps(problem: MallocGameProblem, plan: MemoryPlan) -> int:
    """Latency of the game along a plan."""
    return int(finished(problem, preferences_of_plan(problem, plan)[None])[0, ESTIMATE])


def losses(plans_of: Callable[[Task], list[MemoryPlan]], max_ops: int, tasks: int) -> np.ndarray:
    """Relative losses of replays, of random tasks in which every copy takes time; the game knows no others."""
    found = []

    @settings(max_examples=tasks)
    @given(game_tasks(programs(max_ops)))
    def replay(task: Task) -> None:
        problem = MallocGameProblem(task)
        if problem.tables.costs.prefetch_ps.all():
            plans = plans_of(problem.task)
            found.extend(replayed_ps(problem, plan) / time_plan(task, plan).latency_ps - 1 for plan in plans)

    replay()
    return np.array(found)


@examples(60)
@given(game_tasks(), st.integers(0, 2**32 - 1))
def test_the_plan_of_a_game_is_that_game(task: Task, seed: int) -> None:
    """Its preferences replay it exactly, write-backs too."""
    problem = MallocGameProblem(task)
    states = problem.new_states(4)
    problem.finish_randomly(states[:3], seed)
    problem.finish_greedily(states[3:])
    plans = [problem.plan(state) for state in states]
    again = finished(problem, np.stack([preferences_of_plan(problem, plan) for plan in plans]))
    assert (again[:, ESTIMATE] == states[:, ESTIMATE]).all()
    assert [problem.plan(state) for state in again] == plans


def test_wishes_are_what_the_plan_does() -> None:
    """h0 is written back where it is made, as nobody else needs it before that, and fetched for its last use."""
    task, evaluated = plan_with_copies()
    problem, plan = MallocGameProblem(task), evaluated.plan
    names = ("h0", "w2", "w1", "y")
    of = {name: task.program.use_tensor == task.program.tensor_name.index(name) for name in names}
    preferences = preferences_of_plan(problem, plan)
    assert preferences[of["h0"]].tolist() == [COPY, NO_COPY, NO_COPY]
    assert preferences[of["w2"]].tolist() == [NO_COPY]
    assert preferences[of["w1"]].tolist() == [DROP]
    assert preferences[of["y"]].tolist() == [COPY]


def test_plans_of_xla_lose_next_to_nothing_on_average() -> None:
    """More of them win, as what the game still holds need not be fetched again, but few lose more."""
    found = losses(lambda task: [default_plan(task, each.options) for each in PUBLIC_SETS], 14, 400)
    assert (found < 0).mean() > 4 * (found > 0).mean()
    assert found.mean() < 0.001


def test_optimal_plans_lose_little() -> None:
    """Most losses are for want of one gap where the plan moves other blocks out of the way."""
    found = losses(lambda task: [Exact().solve(MallocGameEnv(task), time_limit=10.0).plan], 14, 60)
    assert (found == 0).mean() > 0.8
    assert found.mean() < 0.01
