"""Planners for mallocGame: validity, budgets, determinism, and the optimum of all games where they can be counted."""

import numpy as np
import pytest

import memplace_agents
from memplace_agents.search import annealing_kernels
from memplace_agents.search.evaluator import GameEvaluator, evaluator_for
from memplace_agents.search.preferences import by_role, by_tensor, finished, first_preferences, greedy_preferences
from memplace_agents.xla_msa import MsaOptions, assign
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.state import ESTIMATE
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.synthetic import random_dag


def crowded(seed=3, ops=20):
    """A program larger than fast memory, so that there is something to decide."""
    return MallocGameEnv(random_dag(seed, ops=ops, largest=60_000_000), "tpu-v4i")


def best_of_all_games(problem):
    """Latency in ps of the best game of all, by playing every one of them."""
    states = problem.new_states(1)
    for _ in range(problem.num_decisions):
        parent, action = np.nonzero(problem.legal(states))
        states = states[parent]
        problem.play(states, action)
    return states[:, ESTIMATE].min()


@pytest.mark.parametrize("seed", range(6))
def test_nobody_beats_the_best_of_all_games_and_annealing_reaches_it(seed):
    env = MallocGameEnv(random_dag(seed, ops=3, largest=200_000_000), "tpu-v4i")
    optimum = best_of_all_games(env.problem)
    assert memplace_agents.GreedyPlayer().solve(env).report.latency_ps >= optimum
    assert memplace_agents.GameLocalSearch().solve(env, budget=2000).report.latency_ps == optimum


def test_wishes_reach_every_game():
    """Legal actions are played as they are, so that the games along preferences are all games."""
    problem = crowded().problem
    rng = np.random.default_rng(0)
    states, played = problem.new_states(1), np.empty(problem.num_decisions, dtype=np.int8)
    for use in range(problem.num_decisions):
        played[use] = rng.choice(np.flatnonzero(problem.legal(states)[0]))
        problem.play(states, played[use : use + 1])
    assert (finished(problem, played[None])[:, ESTIMATE] == states[:, ESTIMATE]).all()


def test_greedy_wishes_are_the_greedy_game():
    for seed in range(8):
        problem = crowded(seed).problem
        states = problem.new_states(1)
        problem.finish_greedily(states)
        assert finished(problem, greedy_preferences(problem)[None])[0, ESTIMATE] == states[0, ESTIMATE]


def test_replays_from_saved_states_are_whole_games():
    """Annealing reports the latency that its best game has when it is played from the start."""
    problem = crowded().problem
    groups = by_tensor(problem), by_role(problem)
    for seed in range(5):
        current, best = first_preferences(problem)[1].copy(), first_preferences(problem)[1]
        heats = np.full(300, problem.all_backing_ps * 0.01)
        game = problem.tables, problem.layout, *groups, problem.new_states(1)[0]
        latency = annealing_kernels.anneal(*game, 7, heats, seed, current, best)
        assert finished(problem, best[None])[0, ESTIMATE] == latency


def test_games_and_plans_compete():
    env = crowded()
    evaluator = GameEvaluator(env, budget=10)
    states = env.problem.new_states(3)
    env.problem.finish_randomly(states, 0)
    evaluator.offer_states(states)
    report = evaluator.offer(assign(env.task, MsaOptions()))
    solution = evaluator.solution("test", 0)
    assert solution.evaluations == 4
    assert solution.report.latency_s == min(report.latency_s, env.problem.latency_s(states).min())
    assert solution.plan.settings == env.task.settings


def test_xla_plays_both_formulations():
    game = crowded()
    one_shot = OneShotEnv(game.program, game.accelerator)
    for env in (game, one_shot):
        assert evaluator_for(env, memplace_agents.XlaMsa.formulations, budget=1).env is env
    assert (
        memplace_agents.XlaMsa().solve(game).report.latency_ps
        == memplace_agents.XlaMsa().solve(one_shot).report.latency_ps
    )


def test_no_chains_are_refused():
    with pytest.raises(AgentError, match="at least 1"):
        memplace_agents.GameLocalSearch(chains=0)
