"""Windows of programs: plans as solutions, columns that are fixed, and addresses like those of another plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic import dynamic_model
from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import Detail
from memplace_agents.exact.dynamic.dynamic_model import build, only_near
from memplace_agents.exact.dynamic.dynamic_search import Search
from memplace_agents.exact.dynamic.plan_values import values_of_plan
from memplace_agents.exact.highs import LinearProgram, relax, solve
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from tests.agents.test_exact_dynamic import heuristics_of, moving_plans
from tests.agents.weighed import rows_of
from tests.strategies import programs_with_idle_ops, tasks

CLOSE = 1e-6
MOVING = tasks(programs_with_idle_ops())


def game():
    """A game of 60 ops."""
    return MallocGameEnv("synthetic:random?ops=60&seed=0", "edge-tpu")


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a task, where nothing failed
@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much])
@given(MOVING, st.data())
def test_a_plan_is_a_solution_of_its_latency(task, data):
    plans = [data.draw(moving_plans(task)), heuristics_of(task)[0]]
    model = build(task, Detail(horizon=10**6) | rows_of(task))
    upper = model.program.upper.copy()
    upper[model.columns.time] = np.inf  # some plans are slower than moving nothing
    model = model._replace(program=replace(model.program, upper=upper))
    for plan in plans:
        values = values_of_plan(model, plan)
        assert model.program.holds(values)
        assert model.program.cost @ values * model.unit_ps == pytest.approx(evaluate_plan(task, plan).latency_ps)


def test_a_plan_whose_copies_begin_earlier_is_no_solution():
    env = game()
    plan, model = first_plan_of(env), build(env.task)
    assert len(plan.transfers)
    assert model.program.holds(values_of_plan(model, plan))
    near = build(env.task, Detail(horizon=1))
    early = (plan.transfers[:, 1] == env.task.backing) & (plan.transfers[:, 4] > plan.transfers[:, 3])
    assert early.any()
    assert not near.program.holds(values_of_plan(near, plan))


def first_plan_of(env):
    """The best plan that costs no search."""
    evaluator = GameEvaluator(env, budget=100)
    offer_cheap_plans(evaluator)
    return evaluator.incumbent


def everything(program):
    """The program itself, in place of `LinearProgram.without_fixed`."""
    return program, np.ones(len(program.cost), dtype=np.bool_), np.ones(len(program.row_lower), dtype=np.bool_)


@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much])
@given(MOVING, st.data())
def test_programs_without_their_fixed_columns_have_the_same_optimum(task, data):
    model = build(task)
    values = values_of_plan(model, heuristics_of(task)[0])
    count = len(values)
    fixed = np.zeros(count, dtype=np.bool_)
    fixed[np.random.default_rng(data.draw(st.integers(0, 99))).permutation(count)[: count * 2 // 3]] = True
    program = model.program
    lower, upper = (np.where(fixed, values, side) for side in (program.lower, program.upper))
    program = replace(program, lower=lower, upper=upper)
    small, free, rows = program.without_fixed()
    assert len(small.cost) == free.sum() < count
    assert len(small.row_lower) == rows.sum()
    found = solve(program).values, relax(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinearProgram, "without_fixed", everything)
        expected = solve(program).values, relax(program)
    assert program.cost @ found[0] == pytest.approx(program.cost @ expected[0], rel=CLOSE)
    assert (found[0][fixed] == values[fixed]).all()
    assert found[1].bound == pytest.approx(expected[1].bound, rel=CLOSE)


def test_fixed_columns_that_violate_a_row_are_left_to_the_solver():
    program = build(game().task).program
    lower = program.upper.copy()  # everything is everywhere, but for one column
    lower[0] = program.lower[0]
    program = replace(program, lower=lower)
    assert 0 < (program.lower < program.upper).sum() < len(lower) / 2
    assert program.without_fixed()[0] is program
    assert relax(program).values is None


def search_of(env):
    """A search that has begun with the game's first plan."""
    evaluator = GameEvaluator(env, budget=10**6)
    found = Search(env.task, lambda plan: evaluator.offer(plan).latency_ps, Clock.of(evaluator), lambda _: None)
    found.begin_with(first_plan_of(env))
    return found


def test_windows_find_faster_plans():
    """A window finds a plan although everything far from it is fixed."""
    env = MallocGameEnv("SqueezeNet", "edge-tpu")
    search, op = search_of(env), env.task.program.use_op
    began_ps = search.best.latency_ps
    assert search.window(op < 40, search.clock.part(60))
    assert search.best.latency_ps < began_ps
    assert not violations(env.task, search.best.plan)
    assert evaluate_plan(env.task, search.best.plan).latency_ps == search.best.latency_ps


def test_solutions_that_are_as_fast_as_the_best_plan_are_unfolded():
    """A tie-break looks for such plans; only a window has no use for them."""
    env = MallocGameEnv("SqueezeNet", "edge-tpu")
    search = search_of(env)
    offered, offer = list[int](), search._offer
    search._offer = lambda plan: offered.append(offer(plan)) or offered[-1]
    best_ps = search.best.latency_ps
    search.complete(search.best.decisions, search.clock.part(20))
    assert offered == [best_ps]


def test_columns_far_from_the_window_keep_their_values(monkeypatch):
    monkeypatch.setattr(dynamic_model, "AHEAD", 1)
    env = game()
    model, plan = build(env.task), first_plan_of(env)
    values = values_of_plan(model, plan)
    uses = env.task.program.use_op == 20
    program = only_near(model, Decisions.of_plan(env.task, plan).fixed(model, ~uses), values, uses)
    far = np.isin(np.arange(len(values)), model.columns.time[50:])
    assert (program.lower[far] == values[far]).all()
    assert (program.upper[far] == values[far]).all()
    free = program.lower < program.upper
    stay = model.columns.stay[uses]
    assert (model.op[stay[stay >= 0]] < 19).any()
    assert free[stay[stay >= 0]].all()
    assert free.any()
