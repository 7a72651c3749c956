"""Agents where a third party says what everything costs and what ops reserve: plans can run, reports are true."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents import GameLocalSearch, XlaMsa, make_agent
from memplace_agents.auto import Portfolio
from memplace_agents.registry import agent_specs
from memplace_agents.search.stages import Stage
from memplace_agents.xla_msa import PUBLIC_SETS, assign
from memplace_agents.xla_msa.assignment import addresses
from memplace_agents.xla_msa.buffers import buffers_of, in_order
from memplace_agents.xla_msa.xla_costs import op_costs
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.placement.simulator import evaluate_plan, traffic_bound_ps
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from tests.agents.planted import planted_env
from tests.agents.quick import make_quick
from tests.strategies import game_tasks, programs, programs_with_idle_ops, tasks
from tests.thorough import examples

SEARCHES = {
    formulation: [name for name, spec in agent_specs(formulation).items() if not spec.learns]
    for formulation in Formulation
}
SLOW = ("auto", "calibrated", "exact", "exact-dynamic", "portfolio")
"""Take a second or more for an example, which the others take for all."""
LEARNERS = [(name, formulation) for formulation in Formulation for name in agent_specs(formulation)]
LEARNERS = [(name, formulation) for name, formulation in LEARNERS if agent_specs()[name].learns]


def check(task, solution, budget):
    """The plan can run, what is said of it is what the cost arrays say, and the budget was kept."""
    assert violations(task, solution.plan) == []
    assert evaluate_plan(task, solution.plan).latency_ps == solution.report.latency_ps
    assert solution.history[-1].latency_s == solution.report.latency_s
    assert solution.report.latency_ps >= traffic_bound_ps(task)
    if solution.bound_s is None:
        assert solution.outcome == "feasible"
    else:
        assert solution.bound_s <= solution.report.latency_s * (1 + 1e-12)
    assert solution.evaluations <= budget or solution.agent == "exact"


def few(name):
    return examples(12 if name in SLOW else 40, fewest=3)


@pytest.mark.parametrize("name", SEARCHES[Formulation.ONE_SHOT])
def test_one_shot_searches_find_plans_that_can_run(name):
    @few(name)
    @given(task=tasks(programs_with_idle_ops(max_ops=6)), seed=st.integers(0, 99))
    def holds(task, seed):
        check(task, make_agent(name).solve(OneShotEnv(task), budget=40, seed=seed), 40)

    holds()


@pytest.mark.parametrize("name", SEARCHES[Formulation.GAME])
def test_game_searches_find_plans_that_can_run(name):
    @few(name)
    @given(task=game_tasks(), seed=st.integers(0, 99))
    def holds(task, seed):
        check(task, make_agent(name).solve(MallocGameEnv(task), budget=60, seed=seed), 60)

    holds()


@pytest.mark.parametrize(("name", "formulation"), LEARNERS)
@examples(5, fewest=3)
@given(data=st.data())
def test_learners_find_plans_that_can_run(name, formulation, data):
    if formulation is Formulation.ONE_SHOT:
        task = data.draw(tasks(programs_with_idle_ops(max_ops=5)))
        env = OneShotEnv(task)
    else:
        task = data.draw(game_tasks(programs_with_idle_ops(max_ops=5)))
        env = MallocGameEnv(task)
    solution = make_quick(name).solve(env, budget=12, seed=1)
    check(task, solution, 12)
    if formulation is Formulation.GAME:
        assert solution.report.latency_ps <= make_agent("greedy-player").solve(env).report.latency_ps


def on_a_chip_that_says_otherwise(task):
    """The same costs on a chip whose description would give others.

    Only the levels' shares of the bandwidth stay: the traffic bound weighs ports by them, right whatever uses cost.
    """
    chip = task.accelerator
    levels = tuple(
        replace(
            level,
            latency_ps=level.latency_ps + 9,
            read_bytes_per_s=2 * level.read_bytes_per_s,
            write_bytes_per_s=2 * level.write_bytes_per_s,
        )
        for level in chip.levels
    )
    changes = {"dma_efficiency": chip.dma_efficiency / 2, "op_overhead_ps": chip.op_overhead_ps + 77, "ports": "serial"}
    return replace(task, accelerator=replace(chip, levels=levels, systolic=None, **changes))


@examples(20)
@given(tasks(programs(max_ops=6)), st.integers(0, 99))
def test_one_shot_searches_read_no_cost_from_the_chip(task, seed):
    other = on_a_chip_that_says_otherwise(task)
    for name in SEARCHES[Formulation.ONE_SHOT]:
        one, two = (make_agent(name).solve(OneShotEnv(each), budget=40, seed=seed) for each in (task, other))
        assert one.report.latency_ps == two.report.latency_ps
        assert one.plan.allocations.tolist() == two.plan.allocations.tolist()
        assert one.bound_s == two.bound_s


@examples(40)
@given(game_tasks())
def test_the_greedy_player_reads_no_cost_from_the_chip(task):
    """XLA's solver, from which the others begin, asks the chip how long a copy of all fast memory would take."""
    one, two = (
        make_agent("greedy-player").solve(MallocGameEnv(each)) for each in (task, on_a_chip_that_says_otherwise(task))
    )
    assert one.report.latency_ps == two.report.latency_ps
    assert one.plan.allocations.tolist() == two.plan.allocations.tolist()


@examples(60)
@given(game_tasks(), st.sampled_from([each.options for each in PUBLIC_SETS]))
def test_xlas_own_order_is_what_it_says(task, options):
    """Whatever ops reserve; and the order reversed gives a plan that can run."""
    base, limit = addresses(task, options)
    buffers = buffers_of(task.program, limit - base)
    order = [buffer.tensor for buffer in in_order(op_costs(task), task.program, buffers, options.benefit_scale)]
    assert assign(task, options, order) == assign(task, options)
    assert violations(task, assign(task, options, order[::-1])) == []
    plan = XlaMsa(options).solve(MallocGameEnv(task)).plan
    room = task.accelerator.levels[0].capacity_bytes
    assert all(task.program.tensor_bytes[tensor] <= room for tensor in order)
    assert plan == assign(task, options)


def test_reserving_everything_leaves_everything_in_the_backing_memory():
    program, env = random_dag(3, ops=8), planted_env(ops=6, chip="tpu-v4i")
    for task in (env.task, MallocGameEnv(program, "tpu-v4i").task):
        reserved = task.costs.reserved_bytes.copy()
        reserved[:, :-1] = [level.capacity_bytes for level in task.accelerator.levels[:-1]]
        full = replace(task, costs=task.costs._replace(reserved_bytes=reserved))
        for made, formulation in ((OneShotEnv, Formulation.ONE_SHOT), (MallocGameEnv, Formulation.GAME)):
            for name in SEARCHES[formulation]:
                solution = make_agent(name).solve(made(full), budget=30)
                assert len(solution.plan.allocations) == 0, name
                assert solution.speedup == pytest.approx(1)


@examples(30)
@given(game_tasks(programs(max_ops=6)), st.integers(0, 99))
def test_portfolios_of_searches_are_no_worse_than_their_parts(task, seed):
    env, agents = MallocGameEnv(task), [XlaMsa(), GameLocalSearch()]
    solution = Portfolio(stages=[Stage(agent, 1.0) for agent in agents]).solve(env, budget=60, seed=seed)
    check(task, solution, 60)
    assert solution.report.latency_ps <= XlaMsa().solve(env).report.latency_ps
