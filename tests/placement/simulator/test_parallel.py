"""Plans run in several processes: the same reports, and the same searches, as in one."""

import os
import pickle
import signal
from dataclasses import fields, replace

import gymnasium as gym
import numpy as np
import pytest

from memplace_agents import GameLocalSearch, LocalSearch, RandomSearch
from memplace_env._lib.errors import AgentError, SimulatorError, WorkerError
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.simulator import BuiltinSimulator, ParallelSimulator, Report, evaluate_plan, evaluate_plans
from memplace_env.placement.synthetic import random_dag
from memplace_env.testing import check_simulator
from memplace_env.testing.instances import plans_of
from memplace_leaderboard.black_box import BlackBox
from tests.agents.quick import make_quick
from tests.by_hand import three_op_task


@pytest.fixture
def task():
    env = gym.make("MemPlace-v0", workload=random_dag(1, ops=12))
    return env.unwrapped.task


def same(report, other):
    return all(np.array_equal(getattr(report, field.name), getattr(other, field.name)) for field in fields(Report))


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_reports_are_those_of_one_process(task, noise):
    parallel = ParallelSimulator(BlackBox(1, noise), 2)
    assert parallel.noisy == (noise > 0)
    ours, theirs = replace(task, simulator=BlackBox(1, noise)), replace(task, simulator=parallel)
    plans = list(plans_of(task, count=5))
    for _ in range(2):
        assert all(map(same, evaluate_plans(ours, plans), evaluate_plans(theirs, plans)))
        assert same(evaluate_plan(ours, plans[0]), evaluate_plan(theirs, plans[0]))
    assert parallel.simulator.measured == 2 * (len(plans) + 1)
    parallel.close()


def test_it_keeps_to_the_contract():
    parallel = ParallelSimulator(BuiltinSimulator(), 2)
    assert parallel.noisy is None
    check_simulator(parallel)
    assert pickle.loads(pickle.dumps(parallel)).workers == 2
    parallel.close()


def test_a_killed_worker_loses_nothing(task):
    parallel = ParallelSimulator(BlackBox(1, delay_s=0.02), 2)
    theirs, plans = replace(task, simulator=parallel), list(plans_of(task, count=10))
    expected = evaluate_plans(replace(task, simulator=BlackBox(1)), plans)
    assert all(map(same, evaluate_plans(theirs, plans), expected))
    os.kill(parallel.process_ids[0], signal.SIGKILL)
    assert all(map(same, evaluate_plans(theirs, plans), expected))
    assert len(parallel.process_ids) == 2
    parallel.close()


class Broken(BuiltinSimulator):
    def run(self, program, accelerator, plan):
        raise ZeroDivisionError("no chip")


def test_failures_name_the_simulator():
    parallel = ParallelSimulator(Broken(), 2)
    task = three_op_task()
    with pytest.raises(SimulatorError, match="Simulator Broken raised ZeroDivisionError on a valid plan: no chip"):
        evaluate_plans(replace(task, simulator=parallel), [native_plan(task)] * 3)
    parallel.close()
    with pytest.raises(WorkerError, match="workers must be at least 1, not 0"):
        ParallelSimulator(Broken(), 0)


@pytest.mark.parametrize(
    ("agent", "env_id", "dtype"),
    [
        (RandomSearch(), "MemPlace-v0", "int8"),
        (LocalSearch(), "MemPlace-v0", "int8"),
        (make_quick("egrl"), "MemPlace-v0", "int8"),
        (GameLocalSearch(), "MallocGame-v0", "bfloat16"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_searches_are_those_of_one_process(agent, env_id, dtype):
    def solve(workers):
        env = gym.make(env_id, workload=random_dag(2, ops=12, dtype=dtype), simulator=BlackBox(1, 0.05))
        solution = agent.solve(env, budget=80, workers=workers)
        measured = env.unwrapped.task.simulator.measured
        return solution.plan.to_json(), solution.report.latency_ps, [p.latency_s for p in solution.history], measured

    assert solve(1) == solve(3)


def test_where_cost_arrays_judge_workers_have_nothing_to_do():
    env = gym.make("MemPlace-v0", workload=random_dag(2, ops=8))
    alone, together = (RandomSearch().solve(env, budget=20, workers=workers) for workers in (1, 4))
    assert alone.plan == together.plan
    with pytest.raises(AgentError, match="workers must be at least 1, not 0"):
        RandomSearch().solve(env, workers=0)
