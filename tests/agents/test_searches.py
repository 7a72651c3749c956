"""RandomSearch, GreedyDP and LocalSearch: budgets, seeds, histories, and optima on planted programs."""

import time

import gymnasium as gym
import numpy as np
import pytest

import memplace_agents
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import TOPOLOGIES, planted
from memplace_env.placement.validation import violations
from tests.agents.planted import planted_env
from tests.patience import patience

SEARCHES = ["random", "greedy-dp", "local-search"]


def test_solutions_add_up():
    env = planted_env(ops=14, chip="tpu-v4i")
    reports = []
    solution = memplace_agents.LocalSearch().solve(env, budget=300, seed=1, callback=reports.append)
    assert violations(env.task, solution.plan) == []
    report = evaluate_plan(env.task, solution.plan)
    assert report.latency_s == solution.report.latency_s == solution.history[-1].latency_s
    assert solution.outcome == "feasible"
    assert solution.evaluations <= 300
    assert reports[-1].evaluations == solution.evaluations
    latencies = [progress.latency_s for progress in solution.history]
    assert latencies == sorted(set(latencies), reverse=True)
    assert solution.speedup == env.problem.native_report.latency_s / report.latency_s
    assert solution.latency_s == report.latency_s
    assert solution.summary()["report"]["latency_s"] == report.latency_s


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_local_search_reaches_planted_optima_and_nobody_beats_them(topology):
    env = planted_env(topology, ops=6, seed=2)
    optimum = env.task.costs.compute_ps.sum()
    for name in SEARCHES:
        assert memplace_agents.make_agent(name).solve(env, budget=4000).report.latency_ps >= optimum
    best = min(memplace_agents.LocalSearch().solve(env, budget=4000, seed=seed).report.latency_ps for seed in range(3))
    assert best == optimum


def test_greedy_dp_is_greedy_op_by_op():
    """Its first pass, by hand: each op's best pair of levels by reward, the rest frozen."""
    env = OneShotEnv(planted_env(ops=5).task, reward="egrl")
    current = np.full(10, 2)
    for op in range(5):
        trials = [current.copy() for _ in range(9)]
        for index, trial in enumerate(trials):
            trial[2 * op : 2 * op + 2] = divmod(index, 3)
        rewards, _ = env.score(np.array(trials))
        if rewards.max() > env.score(current[None])[0][0]:
            current = trials[int(rewards.argmax())]
    counted = 1 + 9 * int(env.problem.decides.reshape(-1, 2).any(axis=1).sum())
    solution = memplace_agents.GreedyDP().solve(env, budget=counted)
    assert solution.evaluations == counted
    assert solution.report.latency_s <= env.score(current[None])[1].latency_s[0]


def test_budget_and_time_limit_end_a_search():
    env = planted_env()
    assert memplace_agents.RandomSearch().solve(env, budget=100).evaluations == 100
    assert memplace_agents.LocalSearch().solve(env, budget=1).evaluations == 1
    begin = time.perf_counter()
    solution = memplace_agents.LocalSearch().solve(env, budget=10**9, time_limit=0.2)
    assert time.perf_counter() - begin < patience(5)
    assert solution.plan is not None


def test_nonsense_is_refused():
    env = planted_env()
    with pytest.raises(AgentError, match="at least 1"):
        memplace_agents.RandomSearch().solve(env, budget=0)
    with pytest.raises(AgentError, match="time limit"):
        memplace_agents.RandomSearch().solve(env, time_limit=0)
    with pytest.raises(AgentError, match="one-shot"):
        memplace_agents.RandomSearch().solve(gym.make("CartPole-v1"))
    with pytest.raises(AgentError, match="'exact'"):
        memplace_agents.make_agent("exakt")


def test_offered_plans_count_and_compete():
    env = planted_env()
    _, mapping = planted("chain", ops=8, seed=4)
    evaluator = OneShotEvaluator(env, budget=10)
    evaluator(np.full((1, 16), 2))
    report = evaluator.offer(place_levels(env.task, mapping).plan)
    solution = evaluator.solution("test", 0, Verdict("optimal", report.latency_s))
    assert solution.evaluations == 2
    assert solution.report.latency_ps == report.latency_ps
    assert solution.gap == 0
    assert OneShotEvaluator(env, budget=1).solution("test", 0).outcome == "unknown"
