"""Plan gradients: budgets, seeds, masks, files, planted optima, several programs, and runs that go on after any end."""

from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest

from memplace_agents import BestRule, CrossEntropy, PlanGradient, cross_entropy, make_agent
from memplace_agents.built_in_agents import CHECKPOINT, CHECKPOINT_BYTES, POLICY
from memplace_agents.learning import safe_files
from memplace_agents.learning.entry_features import MOST_NATS, entry_decisions, prior_of
from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.plan_distribution import PlanDistribution
from memplace_agents.learning.policy_file import load_policy, save_policy
from memplace_agents.rule_agents import GreedyPlayer
from memplace_agents.search import factored_programs as programs
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator, evaluator_for
from memplace_agents.search.factored_programs import program_of
from memplace_agents.search.preferences import by_role, finished
from memplace_env._lib.errors import AgentError, EnvError
from memplace_env.envs.malloc_game import GameBatch, MallocGameEnv
from memplace_env.envs.malloc_game.flat import flat_space
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import planted, random_dag
from tests.agents.plan_gradient import env_of, small
from tests.agents.planted import optimum_ps, planted_env, reach

FORMULATIONS = ["one-shot", "game"]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_search_begins_with_the_rules(formulation):
    env = env_of(formulation)
    solution = small().solve(env, budget=90, seed=1)
    assert solution.evaluations == 90
    rules = [evaluate_plan(env.task, plan).latency_s for plan in cheap_plans(env.problem).values()]
    assert solution.report.latency_s <= min(rules)


@pytest.mark.parametrize(("topology", "ops", "seed"), [("diamond", 16, 6), ("fan-out", 8, 1), ("fan-out", 8, 5)])
def test_planted_optima_that_no_rule_finds_are_reached(topology, ops, seed):
    env = planted_env(topology, ops=ops, seed=seed)
    assert BestRule().solve(env).report.latency_ps > optimum_ps(env)
    reach(PlanGradient(), env, 4000)


def test_a_planted_optimum_of_the_game_is_reached():
    """The greedy player does not, nor do 998 of 1,000 random games."""
    env = MallocGameEnv(planted("chain", ops=10, seed=2, accelerator="tpu-v4i").program, "tpu-v4i")
    assert GreedyPlayer().solve(env).report.latency_ps > env.task.costs.compute_ps.sum()
    reach(PlanGradient(), env, 4000)


@pytest.mark.parametrize("seed", range(4))
def test_decisions_of_a_game_are_seen_in_the_best_game_of_the_rules(seed):
    env = env_of("game", seed)
    problem = env.problem
    decisions, states = entry_decisions(program_of(GameEvaluator(env, budget=9))), problem.new_states(1)
    assert decisions.legal.all()
    assert decisions.inputs == flat_space().shape[0]
    best = min((evaluate_plan(problem.task, plan).latency_s, name) for name, plan in cheap_plans(problem).items())[1]
    for row, action in zip(decisions.features, preferences_of_plan(problem, cheap_plans(problem)[best]), strict=True):
        assert np.array_equal(row, GameBatch([problem], states, flat=True).observe()[0])
        problem.play(states, np.array([action]))
    roles = by_role(problem)
    assert all((decisions.alike[roles.members[a:b]] == index).all() for index, (a, b) in enumerate(pairwise(roles.ptr)))


@pytest.mark.parametrize(("formulation", "search"), [("one-shot", "local-search"), ("game", "game-local-search")])
def test_a_stage_begins_with_the_best_plan_before_it(formulation, search):
    program = random_dag(1, ops=20, largest=60_000_000)
    env = OneShotEnv(program, "nnp-i") if formulation == "one-shot" else MallocGameEnv(program, "tpu-v4i")
    evaluator = evaluator_for(env, [formulation], budget=1000)
    found = make_agent(search).solve(env, budget=400)
    rules = min(evaluate_plan(env.task, plan).latency_s for plan in cheap_plans(env.problem).values())
    assert found.report.latency_s < rules
    evaluator.offer(found.plan)
    program = program_of(evaluator.part(0.5))
    program.begin()
    if formulation == "one-shot":
        levels = env.problem.assignments_of(found.plan.tensor_levels(env.problem.program)[None])
        choices = levels[0, env.problem.movable]
    else:
        choices = preferences_of_plan(env.problem, found.plan)
    assert (program.best == choices).all(axis=1).any()


def test_batches_of_games_end_with_the_time(monkeypatch):
    """Choices are evaluated a few at a time, so a round that is longer than the time ends early."""
    program, played = program_of(GameEvaluator(env_of("game"), budget=1000, time_limit=1000.0)), []

    def slow(problem, preferences):
        played.append(len(preferences))
        program.evaluator._begin -= 600  # as if that had taken ten minutes
        return finished(problem, preferences)

    monkeypatch.setattr(programs, "finished", slow)
    choices, times_s = program.evaluate(np.zeros((100, len(program.decisions.legal)), dtype=np.int64))
    assert played[:2] == [programs.AT_A_TIME] * 2
    assert sum(played) == len(choices) == len(times_s) == 2 * programs.AT_A_TIME


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_damaged_checkpoints_are_refused(formulation, tmp_path):
    env = env_of(formulation)
    small(out=tmp_path).solve(env, budget=40)
    kind = "plan-gradient-run/2"
    content = safe_files.load(tmp_path / CHECKPOINT, kind, CHECKPOINT_BYTES)
    learner = content["run"]["learner"]
    learner["policy"]["layers.0.bias"] = learner["policy"]["layers.0.bias"] * float("nan")
    safe_files.save(tmp_path / CHECKPOINT, kind, content)
    with pytest.raises(AgentError, match="damaged"):
        small(out=tmp_path, resume=True).solve(env, budget=50)


def test_foreign_policies_are_refused(tmp_path):
    path = tmp_path / POLICY
    with pytest.raises(AgentError, match="no file"):
        PlanGradient(policy=path)
    save_policy(path, FlatPolicy(5, 4, 3))
    for formulation in FORMULATIONS:
        with pytest.raises(AgentError, match="5 inputs and 3 actions"):
            PlanGradient(policy=path).solve(env_of(formulation), budget=1)


def test_other_environments_are_refused():
    with pytest.raises(AgentError, match="one formulation"):
        PlanGradient().train([env_of("game"), env_of("one-shot")])
    with pytest.raises(AgentError, match="train ppo"):
        PlanGradient().solve(gym.make("MallocGame-Synthetic-v0"))
    with pytest.raises(EnvError, match="formulation"):
        PlanGradient().solve(gym.make("CartPole-v1"))


def test_a_policy_is_a_prior_of_the_cross_entropy_method(tmp_path, monkeypatch):
    """The first logits are its log-probabilities, 3 nats at most apart; one of another formulation is refused."""

    class Seen(PlanDistribution):
        def start_from(self, levels):
            seen.append(self.logits.copy())

    monkeypatch.setattr(cross_entropy, "PlanDistribution", Seen)
    small(out=tmp_path).solve(env_of("one-shot"), budget=60)
    policy, seen, env = load_policy(tmp_path / POLICY, FlatPolicy), [], env_of("one-shot", seed=5)
    policy.layers[-1].bias.data[1] = 9.0
    save_policy(tmp_path / POLICY, policy)
    for given in (policy, tmp_path / POLICY, None):
        CrossEntropy(policy=given).solve(env, budget=40)
    prior = prior_of(policy, program_of(OneShotEvaluator(env, budget=1)))
    assert (seen[0] == seen[1]).all()
    assert (seen[0] == seen[2] + prior).all()
    assert prior.min() == -MOST_NATS
    assert (np.exp(prior).max(1) <= 1).all()
    assert (np.exp(prior).max(1) >= 1 / prior.shape[1]).all()
    with pytest.raises(AgentError, match="trained in this formulation"):
        CrossEntropy(policy=policy).solve(env_of("game"), budget=60)
    with pytest.raises(AgentError, match="policy is a FlatPolicy of plan-gradient"):
        CrossEntropy(policy=3)


def test_the_shipped_prior_helps_where_plans_are_few():
    """On NeRF, which it has not seen, and where rules are far from the optimum."""
    plain, helped = (
        [CrossEntropy(policy=policy).solve("MemPlace-NeRF-v0", budget=100, seed=seed).speedup for seed in range(3)]
        for policy in (None, "shipped")
    )
    assert sum(helped) > sum(plain)
