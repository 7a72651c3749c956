"""Bounds of long programs window by window: they hold for all plans and never fall; one window is the program."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic import lp_bound
from memplace_agents.exact.dynamic.dual_ascent import DualAscent
from memplace_agents.exact.dynamic.dynamic_model import build
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.dynamic.weighed_rows import violated_rows
from memplace_agents.exact.highs import dual_bound, relax
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.simulator import evaluate_plan
from tests.agents.test_exact_dynamic import moving_plans
from tests.agents.weighed import rows_of
from tests.strategies import programs_with_idle_ops, tasks

CLOSE = 1 + 1e-6


@settings(max_examples=60)
@given(tasks(programs_with_idle_ops(max_ops=12)), st.integers(1, 6))
def test_sweeps_never_fall_and_prove_no_more_than_the_whole_program(task, span):
    model, ascent = build(task, rows_of(task)), DualAscent(span)
    whole, before = relax(model.program).bound, 0.0
    while not ascent.settled:
        answer = ascent.sweep(model)
        assert before <= answer.bound * CLOSE
        assert answer.bound <= whole * CLOSE
        assert answer.bound == pytest.approx(dual_bound(model.program, answer.duals), rel=1e-6)
        before = answer.bound


@settings(max_examples=40)
@given(tasks(programs_with_idle_ops(max_ops=12)))
def test_one_window_is_the_whole_program(task):
    model, ascent = build(task), DualAscent(1000)
    assert ascent.sweep(model).bound == pytest.approx(relax(model.program).bound, rel=1e-6)
    assert ascent.settled


@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
@given(tasks(programs_with_idle_ops()), st.data())
def test_the_bound_holds_for_plans_that_move_tensors(task, data):
    plan = data.draw(moving_plans(task))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lp_bound, "WHOLE_COLUMNS", 0)
        assert linear_bound(task).bound_ps <= evaluate_plan(task, plan).latency_ps


def game():
    """A game whose first answer violates rows with weights."""
    return MallocGameEnv("synthetic:random?ops=60&seed=0", "edge-tpu")


def test_prices_are_carried_to_programs_with_more_rows():
    """A sweep that has no time keeps the bound that the one before has proven without the new rows."""
    env, ascent = game(), DualAscent()
    model = build(env.task)
    first = ascent.sweep(model)
    rows = violated_rows(model, first.values)
    assert len(rows)
    no_time = Clock.of(GameEvaluator(env, budget=1), work=0)
    none = ascent.sweep(build(env.task, rows), no_time)
    assert none.values is None
    assert none.bound == pytest.approx(first.bound)
    more = ascent.sweep(build(env.task, rows))
    assert more.bound > first.bound * 1.005


def test_windows_see_most_of_what_the_whole_program_sees():
    """Both add rows with weights by their own answers."""
    env = game()
    whole = linear_bound(env.task).bound_ps
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lp_bound, "WHOLE_COLUMNS", 0)
        assert linear_bound(game().task).bound_ps == pytest.approx(whole, rel=0.01)
