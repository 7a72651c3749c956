"""The exact agent on games: its bound holds for all plans, its plans are valid, and their quality is what it says."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_agents import Exact, make_agent
from memplace_agents.exact import highs
from memplace_agents.exact.dynamic import detail, dynamic_run
from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import Detail
from memplace_agents.exact.dynamic.dynamic_model import build
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.dynamic.lp_bound import LinearBound, linear_bound
from memplace_agents.exact.highs import relax
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import time_plan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from tests.agents.weighed import rows_of
from tests.strategies import game_tasks, programs_with_idle_ops
from tests.thorough import examples

CLOSE = 1 + 2e-6


def some_plans(task: Task, seed: int) -> list[MemoryPlan]:
    """Random games, the greedy player's, and nothing moved at all."""
    problem = MallocGameProblem(task)
    states = problem.new_states(6)
    problem.finish_randomly(states[:4], seed)
    problem.finish_greedily(states[4:5])
    problem.finish_lazily(states[5])
    return [problem.plan(state) for state in states]


@settings(max_examples=50)
@given(game_tasks(), st.integers(0, 2**31 - 9))
def test_no_plan_beats_the_bound_and_every_plan_fits_the_program(task, seed):
    """The program with a plan's decisions takes no longer than the plan, and no plan less than the program's bound."""
    task = MallocGameProblem(task).task
    model = build(task, Detail(horizon=10**6) | rows_of(task))
    bound_ps = linear_bound(task).bound_ps
    for plan in some_plans(task, seed):
        latency_ps = time_plan(task, plan).latency_ps
        assert bound_ps <= latency_ps
        program = Decisions.of_plan(task, plan).fixed(model)
        upper = program.upper.copy()
        upper[model.columns.time] = np.inf  # some of these plans are slower than moving nothing
        values = relax(replace(program, upper=upper)).values
        assert values is not None
        assert program.cost @ values * model.unit_ps <= latency_ps * CLOSE


@settings(max_examples=35)
@given(game_tasks(), st.integers(2, 6), st.integers(0, 2**31 - 9))
def test_bounds_with_a_horizon_hold_too(task, horizon, seed):
    task = MallocGameProblem(task).task
    model = build(task, Detail(horizon=horizon))
    bound = relax(model.program).bound
    assert bound <= relax(build(task, Detail(horizon=10**6)).program).bound * CLOSE + 1e-6
    for plan in some_plans(task, seed):
        assert bound * model.unit_ps <= time_plan(task, plan).latency_ps * CLOSE


@examples(35)
@given(game_tasks(programs_with_idle_ops(10)), st.integers(0, 2**31 - 9))
def test_plans_are_valid_and_as_good_as_said(task, seed):
    env = MallocGameEnv(task)
    solution = Exact().solve(env)
    assert violations(env.task, solution.plan) == []
    report = time_plan(env.task, solution.plan)
    assert report.latency_s == solution.report.latency_s
    assert solution.bound_s <= report.latency_s
    assert (solution.outcome == "optimal") == (solution.gap <= 1e-5)
    for plan in some_plans(env.task, seed):
        assert solution.bound_s <= time_plan(env.task, plan).latency_ps * PS


@pytest.mark.parametrize("stop_at", range(0, 24, 3))
def test_an_interrupt_of_any_call_of_the_solver_ends_the_search(stop_at, monkeypatch):
    """Every interrupt leaves the plan and the bound so far, whatever the solver was working on."""
    calls, run = [0], highs._run

    def interrupted(*args):
        calls[0] += 1
        return run(*args) or calls[0] > stop_at

    monkeypatch.setattr(highs, "_run", interrupted)
    env = MallocGameEnv("synthetic:matmul?factorisation=strassen&size=8192&dtype=bfloat16")
    solution = Exact().solve(env)
    assert violations(env.task, solution.plan) == []
    assert solution.bound_s <= solution.report.latency_s
    assert calls[0] <= stop_at + 1


def test_small_games_get_branch_and_bound_whatever_their_first_gap(monkeypatch):
    """Windows are the whole program there, and may gain nothing: the tree has the last word."""
    calls, tree = [], Search.branch_and_bound

    def not_at_first(search, gap, clock, horizon=None):
        calls.append(horizon)
        if len(calls) > 1:
            tree(search, gap, clock, horizon)

    monkeypatch.setattr(Search, "branch_and_bound", not_at_first)
    env = MallocGameEnv("synthetic:diamond?ops=20&seed=1", "edge-tpu")
    assert Exact().solve(env, time_limit=60).outcome == "optimal"
    assert len(calls) > 1


def test_a_start_is_not_called_optimal_where_it_is_not():
    """HiGHS 1.15.1 proves 807,688,578,976 ps here where it restarts."""
    env = gym.make("MallocGame-UNet-medical-edge-tpu-v0")
    assert Exact(tie_break="none").solve(env, time_limit=60).report.latency_ps <= 807_510_271_904


@pytest.mark.parametrize("proves", [True, False])
def test_what_may_restart_proves_nothing(proves, monkeypatch):
    """A solver that may restart gives a solution and no bound."""
    options = []
    monkeypatch.setattr(
        highs,
        "_solver",
        lambda program, given, clock, made=highs._solver: options.append(given) or made(program, given, clock),
    )
    model = build(MallocGameEnv("synthetic:diamond?ops=9&seed=1").task, Detail())
    best = highs.solve(model.program)
    again = highs.solve(model.program, start=best.values, certify=proves)
    assert ("mip_allow_restart" in options[-1]) == proves
    assert (again.bound > 0) == proves
    assert model.program.cost @ again.values == pytest.approx(model.program.cost @ best.values)


def test_what_is_too_large_is_annealed(monkeypatch):
    """Without the linear program games are all that finds a plan better than the rules'."""
    env_id = "MallocGame-GPT2-v0"
    rules = make_agent("best-rule").solve(env_id)
    monkeypatch.setattr(detail, "MOST_COLUMNS", 1)
    monkeypatch.setattr(dynamic_run, "ANNEALED_DECISIONS", 500_000)
    solution = Exact().solve(env_id)
    assert solution.outcome == "feasible"
    assert solution.evaluations > rules.evaluations + 100
    assert solution.latency_s < rules.latency_s


@pytest.mark.parametrize(("time_limit", "decisions"), [(None, 5e6), (10, 4e6), (40, 5e6), (1000, 1e8)])
def test_a_long_search_anneals_for_longer(time_limit, decisions, monkeypatch):
    """Five seconds, two fifths of a short time, a tenth of a long one: a decision takes a microsecond."""
    budgets = []
    monkeypatch.setattr(dynamic_run.GameLocalSearch, "run", lambda self, part, seed: budgets.append(part.budget))
    evaluator = GameEvaluator(MallocGameEnv("SqueezeNet", "edge-tpu"), budget=10**9, time_limit=time_limit)
    offer_cheap_plans(evaluator)
    search = dynamic_run.DynamicSearch(evaluator, 1e-5, ties=False)
    search._anneal(dynamic_run.ANNEALING_SHARE)
    assert budgets[0] * evaluator.env.task.program.num_uses == pytest.approx(decisions, rel=0.1)


@pytest.mark.parametrize(("time_limit", "first"), [(None, False), (2.0, True)])
def test_a_linear_program_that_would_take_most_of_the_time_comes_second(time_limit, first, monkeypatch):
    calls = []
    monkeypatch.setattr(dynamic_run, "COLUMN_S", 1e-4)
    monkeypatch.setattr(dynamic_run.GameLocalSearch, "run", lambda *_: calls.append("games"))
    monkeypatch.setattr(dynamic_run, "linear_bound", lambda *_: calls.append("bound") or LinearBound())
    monkeypatch.setattr(dynamic_run.Search, "begin_with", lambda *_: calls.append("search") or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Exact(tie_break="none").solve("MallocGame-GPT2-v0", time_limit=time_limit)
    assert calls == [*(["games"] if first else []), "bound", "search"]
