"""RandomSearch, GreedyDP and LocalSearch: budgets, seeds, histories, and optima on planted programs."""

import numpy as np
import pytest

import memplace_agents
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.solution import Verdict
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.synthetic import TOPOLOGIES, planted
from tests.agents.planted import planted_env

SEARCHES = ["random", "greedy-dp", "local-search"]


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
