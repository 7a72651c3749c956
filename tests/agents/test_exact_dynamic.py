"""Plans of any kind for one-shot tasks: the linear program has room for all of them, and the agent says what is so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import ceil

import numpy as np
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

from memplace_agents import Exact, ExactDynamic
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic import lp_bound
from memplace_agents.exact.dynamic.decisions import Decisions
from memplace_agents.exact.dynamic.detail import Detail
from memplace_agents.exact.dynamic.dynamic_model import build
from memplace_agents.exact.dynamic.lp_bound import LinearBound, linear_bound, long_bound
from memplace_agents.exact.highs import relax, solve
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import HEURISTICS, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from tests.agents.weighed import rows_of
from tests.strategies import programs, programs_with_idle_ops, tasks, tensor_levels
from tests.thorough import examples

CLOSE = 1 + 2e-6
SMALL = tasks(programs(max_ops=8))


def heuristics_of(task: Task) -> list[MemoryPlan]:
    """The compiler's own plans."""
    return [rule(task) for rule in HEURISTICS.values()]


@st.composite
def moving_plans(draw: st.DrawFn, task: Task) -> MemoryPlan:
    """A valid plan in which uses that follow each other are served from blocks of random levels, as far as they fit.

    A result may be written back and fetched again; of resident weights some blocks stay all the time.
    """
    program, backing, ops = task.program, task.backing, task.program.num_ops
    use_level = np.full(program.num_uses, backing)
    blocks, transfers = list[list[int]](), list[list[int]]()
    top = [0] * backing
    for tensor in range(program.num_tensors):
        uses, made = np.flatnonzero(program.use_tensor == tensor), int(program.producer[tensor])
        since = 0  # from then on the backing memory has it
        for first, last in pairwise(sorted({0, len(uses), *draw(st.lists(st.integers(0, len(uses)), max_size=3))})):
            level = draw(st.integers(0, backing))
            if level == backing or top[level] + program.tensor_bytes[tensor] > _height(task, level):
                continue
            op, end = int(program.use_op[uses[first]]), int(program.use_op[uses[last - 1]])
            result = bool(program.use_is_result[uses[first]])
            if result:
                begin, sent = op, draw(st.integers(op + 1, ops))
                end, since = max(end, sent), sent + 1
                transfers.append([tensor, level, backing, op + 1, sent])
            elif made < 0 and not task.streams_weights and draw(st.booleans()):
                begin, end = 0, ops - 1
            elif max(since, made + 1) < op:
                begin = draw(st.integers(max(since, made + 1), op - 1))
                transfers.append([tensor, backing, level, begin, op - 1])
            else:
                continue
            blocks.append([tensor, level, top[level], begin, end])
            top[level] += int(program.tensor_bytes[tensor])
            use_level[uses[first:last]] = level
    transfers.sort(key=lambda copy: (copy[3], copy[4]))
    shaped = (np.array(rows, np.int64).reshape(-1, 5) for rows in (blocks, transfers))
    plan = task.make_plan(use_level, *shaped)
    assume(not violations(task, plan))
    return plan


def _height(task: Task, level: int) -> int:
    reserved = task.costs.reserved_bytes[:, level].max(initial=0)
    return int(task.accelerator.levels[level].capacity_bytes - reserved)


def least_ps(task: Task, plan: MemoryPlan) -> float:
    """Return the linear program's latency for the decisions of a plan in ps; infinite if they are infeasible."""
    model = build(task, Detail(horizon=10**6) | rows_of(task))
    program = Decisions.of_plan(task, plan).fixed(model)
    upper = program.upper.copy()
    upper[model.columns.time] = np.inf  # some plans are slower than moving nothing
    values = relax(replace(program, upper=upper)).values
    return np.inf if values is None else float(program.cost @ values) * model.unit_ps


@examples(60)
@given(tasks(programs_with_idle_ops()), st.data())
def test_plans_that_move_nothing_fit_the_program_and_its_bound(task, data):
    """Resident weights are never copied, so none of their copies can be improved."""
    bound_ps = linear_bound(task).bound_ps
    plans = [*heuristics_of(task), place_levels(task, np.array(data.draw(tensor_levels(task)))).plan]
    for plan in plans:
        latency_ps = evaluate_plan(task, plan).latency_ps
        assert bound_ps <= latency_ps
        found_ps = least_ps(task, plan)
        assert found_ps <= latency_ps * CLOSE
        assert task.streams_weights or found_ps >= latency_ps / CLOSE


def long_bound_from(task, horizon):
    """The bound in ps with long copies, after one that follows copies for so many ops."""
    near = build(task, Detail(horizon=horizon))
    begun_ps = ceil(relax(near.program).bound * near.unit_ps)
    lp_bound._cache(task)["bound"] = LinearBound(begun_ps, near.detail, complete=True)
    clock = Clock.of(OneShotEvaluator(OneShotEnv(task), budget=1))
    found_ps = long_bound(task, clock)
    assert found_ps >= begun_ps
    assert long_bound(task, clock) == found_ps
    return found_ps


def test_longer_copies_raise_the_bound():
    """A copy that begins before its window takes no room there, one that is followed does."""
    task = MallocGameEnv("synthetic:random?ops=12&seed=0", "edge-tpu").task
    near = build(task, Detail(horizon=1))
    assert long_bound_from(task, 1) > 1.05 * relax(near.program).bound * near.unit_ps


@examples(75, suppress_health_check=[HealthCheck.filter_too_much])
@given(tasks(programs_with_idle_ops()), st.data())
def test_plans_that_move_tensors_fit_the_program_and_its_bound(task, data):
    plan = data.draw(moving_plans(task))
    latency_ps = evaluate_plan(task, plan).latency_ps
    assert linear_bound(task).bound_ps <= latency_ps
    assert long_bound_from(task, 1) <= latency_ps
    assert least_ps(task, plan) <= latency_ps * CLOSE


@examples(60)
@given(SMALL)
def test_one_level_serves_a_use(task):
    model = build(task)
    values = solve(model.program).values
    assert values is not None
    assert (Decisions.of_values(model, values).fast.sum(axis=1) <= 1).all()


@examples(60)
@given(tasks(programs_with_idle_ops(max_ops=10)))
def test_the_static_optimum_fits_at_its_latency(task):
    static = Exact().solve(OneShotEnv(task))
    latency_ps = evaluate_plan(task, static.plan).latency_ps
    assert linear_bound(task).bound_ps <= latency_ps
    found_ps = least_ps(task, static.plan)
    assert found_ps <= latency_ps * CLOSE
    assert task.streams_weights or found_ps >= latency_ps / CLOSE


@examples(40)
@given(SMALL, st.integers(0, 99))
def test_plans_are_valid_and_as_good_as_said(task, seed):
    solution = ExactDynamic().solve(OneShotEnv(task), seed=seed, time_limit=1)
    assert violations(task, solution.plan) == []
    report = evaluate_plan(task, solution.plan)
    assert report.latency_ps == solution.report.latency_ps
    assert solution.bound_s <= report.latency_s
    assert (solution.outcome == "optimal") == (solution.gap <= 1e-4)
    static = Exact().solve(OneShotEnv(task))
    assert solution.bound_s <= static.report.latency_s
    for plan in [*heuristics_of(task), static.plan]:
        assert report.latency_ps <= evaluate_plan(task, plan).latency_ps
