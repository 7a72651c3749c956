"""Stages of a search: each begins with the best before it, and what is proven is proven of the best plan of all."""

import gymnasium as gym
import numpy as np
import pytest

import memplace_agents
from memplace_agents.optimality import OPTIMAL_GAP
from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import first_assignments
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.search.preferences import first_preferences
from memplace_agents.search.stages import Stage, run_stages
from memplace_agents.solution import Verdict
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.registration import Formulation

GAME = MallocGameEnv("synthetic:matmul?factorisation=strassen-squared&size=8192&dtype=bfloat16")
ONE_SHOT = gym.make("MemPlace-v0", workload="synthetic:diamond?ops=9&seed=1").unwrapped


class Planted(Agent):
    """Knows a plan, and says what it is told to of it."""

    name = "planted"
    formulations = tuple(Formulation)

    def __init__(self, plan=None, verdict=None):
        self.plan, self.verdict = plan, verdict

    def run(self, evaluator, seed):
        if self.plan is not None:
            evaluator.offer(self.plan)
        return self.verdict


class Noted(Agent):
    """Notes what it begins with."""

    name = "noted"
    formulations = tuple(Formulation)

    def run(self, evaluator, seed):
        self.begun = evaluator.incumbent, evaluator.incumbent_latency_s


def test_searches_start_from_the_incumbent():
    plan = memplace_agents.GameLocalSearch().solve(GAME, budget=3000, seed=5).plan
    problem = GAME.problem
    assert (first_preferences(problem, plan)[0] == preferences_of_plan(problem, plan)).all()
    assert (first_preferences(problem, plan)[1:] == first_preferences(problem)).all()
    maps = ONE_SHOT.problem.assignments_of(np.zeros((1, ONE_SHOT.program.num_tensors), dtype=int))
    one_shot = ONE_SHOT.problem.compile(maps[0]).plan
    known, begun = first_assignments(ONE_SHOT.problem), first_assignments(ONE_SHOT.problem, one_shot)
    assert {each.tobytes() for each in known} <= {each.tobytes() for each in begun}


@pytest.mark.parametrize("name", ["cross-entropy", "game-local-search"])
def test_a_game_search_with_a_tiny_budget_is_as_good_as_the_plan_before_it(name):
    agent = memplace_agents.make_agent(name)
    best = memplace_agents.GameLocalSearch().solve(GAME, budget=3000, seed=5)
    assert agent.solve(GAME, budget=1).report.latency_s > best.report.latency_s
    evaluator = GameEvaluator(GAME, budget=2)
    stage_results = run_stages(evaluator, [Stage(Planted(best.plan)), Stage(agent)], 0).stage_results
    assert [stage_result.evaluations for stage_result in stage_results] == [1, 1]
    assert stage_results[1].latency_s == best.report.latency_s


def test_a_one_shot_search_with_a_tiny_budget_is_as_good_as_the_plan_before_it():
    best = memplace_agents.LocalSearch().solve(ONE_SHOT, budget=2000, seed=5)
    assert memplace_agents.LocalSearch().solve(ONE_SHOT, budget=1).report.latency_s > best.report.latency_s
    evaluator = OneShotEvaluator(ONE_SHOT, budget=2)
    stage_results = run_stages(
        evaluator, [Stage(Planted(best.plan)), Stage(memplace_agents.LocalSearch())], 0
    ).stage_results
    assert stage_results[1].latency_s == best.report.latency_s


def test_the_incumbent_is_the_best_of_all_stages():
    """In stages of stages too."""

    class Nested(Agent):
        name, formulations = "nested", (Formulation.GAME,)

        def run(self, evaluator, seed):
            return run_stages(evaluator, [Stage(noted)], seed)

    noted, greedy = Noted(), memplace_agents.GreedyPlayer().solve(GAME)
    backing = GAME.problem.plan(GAME.problem.first_state)
    evaluator = GameEvaluator(GAME, budget=9)
    run_stages(evaluator, [Stage(noted)], 0)
    assert noted.begun == (None, float("inf"))
    run_stages(evaluator, [Stage(Planted(greedy.plan)), Stage(Planted(backing)), Stage(Nested())], 0)
    assert noted.begun == (greedy.plan, greedy.report.latency_s)


@pytest.mark.parametrize(("above", "outcome"), [(OPTIMAL_GAP / 2, "optimal"), (2 * OPTIMAL_GAP, "feasible")])
@pytest.mark.parametrize("order", [1, -1])
def test_a_bound_proves_whosever_plan(above, outcome, order):
    """The agent that proves the bound need not be the one that has the plan; of several bounds the highest counts."""
    greedy = memplace_agents.GreedyPlayer().solve(GAME)
    bound_s = greedy.report.latency_s / (1 + above)
    proofs = [Stage(Planted(verdict=Verdict(bound_s=bound))) for bound in (bound_s, bound_s / 2)]
    verdict = run_stages(GameEvaluator(GAME, budget=9), [Stage(Planted(greedy.plan)), *proofs[::order]], 0)
    assert (verdict.outcome, verdict.bound_s) == (outcome, bound_s)
    verdict = run_stages(GameEvaluator(GAME, budget=9), [*proofs[::order], Stage(Planted(greedy.plan))], 0)
    assert (verdict.outcome, verdict.bound_s) == (outcome, bound_s)


def test_what_is_proven_ends_the_search():
    greedy = memplace_agents.GreedyPlayer().solve(GAME)
    stages = [Stage(Planted(verdict=Verdict(bound_s=greedy.report.latency_s))), Stage(Planted(greedy.plan))]
    verdict = run_stages(GameEvaluator(GAME, budget=9), [*stages, Stage(memplace_agents.GameLocalSearch())], 0)
    assert verdict.outcome == "optimal"
    assert [stage_result.name for stage_result in verdict.stage_results] == ["planted", "planted"]
