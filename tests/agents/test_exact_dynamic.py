"""Plans of any kind for one-shot tasks: the linear program has room for all of them, and the agent says what is so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import Exact, ExactDynamic
from agents.exact.dynamic.bound import linear_bound_ps
from agents.exact.dynamic.decisions import Decisions
from agents.exact.dynamic.detail import Detail
from agents.exact.dynamic.model import build
from agents.exact.highs import relax
from memplace_env.compiler import HEURISTICS, place_mapping
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.plan import MemoryPlan, violations
from memplace_env.simulator import judge_plan
from memplace_env.task import Task
from memplace_env.testing.strategies import mappings, programs, programs_with_idle_ops, tasks

CLOSE = 1 + 2e-6
SMALL = tasks(programs(max_ops=8))


def heuristics_of(task: Task) -> list[MemoryPlan]:
    """The compiler's own plans."""
    return [rule(task) for rule in HEURISTICS.values()]


def least_ps(task: Task, plan: MemoryPlan) -> float:
    """What the linear program says of the decisions of a plan, in ps; infinite if they do not fit it."""
    model = build(task, Detail(horizon=10**6))
    program = Decisions.of_plan(task, plan).fixed(model)
    upper = program.upper.copy()
    upper[model.columns.time] = np.inf  # some plans are slower than moving nothing
    values = relax(replace(program, upper=upper)).values
    return np.inf if values is None else float(program.cost @ values) * model.unit_ps


@settings(max_examples=150)
@given(tasks(programs_with_idle_ops()), st.data())
def test_plans_that_move_nothing_fit_the_program_and_its_bound(task, data):
    """Where weights are resident they copy nothing, so nothing of them can be done better."""
    bound_ps = linear_bound_ps(task)
    plans = [*heuristics_of(task), place_mapping(task, np.array(data.draw(mappings(task)))).plan]
    for plan in plans:
        latency_ps = judge_plan(task, plan).latency_ps
        assert bound_ps <= latency_ps
        assert least_ps(task, plan) <= latency_ps * CLOSE
        assert task.streams_weights or least_ps(task, plan) >= latency_ps / CLOSE


@settings(max_examples=60)
@given(tasks(programs_with_idle_ops(max_ops=10)))
def test_the_static_optimum_fits_at_its_latency(task):
    static = Exact().solve(OneShotEnv(task))
    latency_ps = judge_plan(task, static.plan).latency_ps
    assert linear_bound_ps(task) <= latency_ps
    found_ps = least_ps(task, static.plan)
    assert found_ps <= latency_ps * CLOSE
    assert task.streams_weights or found_ps >= latency_ps / CLOSE


@settings(max_examples=40)
@given(SMALL, st.integers(0, 99))
def test_plans_are_valid_and_as_good_as_said(task, seed):
    solution = ExactDynamic().solve(OneShotEnv(task), seed=seed, time_limit=1)
    assert violations(task, solution.plan) == []
    report = judge_plan(task, solution.plan)
    assert report.latency_ps == solution.report.latency_ps
    assert solution.bound_s <= report.latency_s
    assert (solution.outcome == "optimal") == (solution.gap <= 1e-4)
    static = Exact().solve(OneShotEnv(task))
    assert solution.bound_s <= static.report.latency_s
    for plan in [*heuristics_of(task), static.plan]:
        assert report.latency_ps <= judge_plan(task, plan).latency_ps
