"""Tie-breaks of the exact agents: the backing port is less busy or as busy as before, and no plan becomes slower."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given

from memplace_agents import Auto, Exact, ExactDynamic, Portfolio
from memplace_agents.exact.static.static_ties import ROUNDS
from memplace_agents.exact.tie_break import Remaining
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import all_backing, native_plan, place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import backing_port_ps, evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.test_exact import chip_with
from tests.agents.test_exact_alike import sliced_tasks
from tests.strategies import game_tasks, programs, programs_with_idle_ops, tasks
from tests.thorough import examples


def check(make, env, **options):
    """The plan is valid, no slower than without tie-breaks, and keeps the port no longer busy; what is said is true."""
    task = env.task
    first, solution = (agent.solve(env, **options) for agent in (make(tie_break="none"), make()))
    before, after = (backing_port_ps(task, found.plan) for found in (first, solution))
    assert violations(task, solution.plan) == []
    assert evaluate_plan(task, solution.plan).latency_ps == solution.report.latency_ps
    assert (solution.report.latency_ps, after) <= (first.report.latency_ps, before)
    assert solution.outcome == first.outcome or solution.outcome == "optimal"
    assert solution.backing_port_s == after * PS
    assert first.backing_port_before_s is None
    said = solution.backing_port_before_s
    assert said is None or solution.backing_port_s < said
    if solution.report.latency_ps == first.report.latency_ps:  # it may find a faster plan, too
        assert solution.plan == first.plan if said is None else said == before * PS
    return first, solution


@examples(60)
@given(tasks(programs(max_ops=8)))
def test_assignments(task):
    check(Exact, OneShotEnv(task))


@examples(40)
@given(sliced_tasks())
def test_assignments_of_slices(task):
    check(Exact, OneShotEnv(task))


@examples(40)
@given(game_tasks(programs_with_idle_ops(10)))
def test_games(task):
    check(Exact, MallocGameEnv(task))


@examples(20)
@given(tasks(programs(max_ops=8)))
def test_one_shot_plans_that_move_tensors(task):
    check(ExactDynamic, OneShotEnv(task))


def two_ops():
    """A task whose ops compute for much longer than any memory needs for the result between them."""
    builder = ProgramBuilder("bound-by-compute", "int8")
    x, y = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("y", 10, TensorKind.OUTPUT)
    between = builder.tensor("between", 1000)
    builder.op("Relu", [x], [between], vector_ops=10**12)
    builder.op("Relu", [between], [y], vector_ops=10**12)
    return make_task(builder.build(), load_accelerator("intel-npu-4000"))


def test_traffic_beside_a_computation_is_saved():
    """The result costs no latency in any memory; the tie-break prefers the fast one, which saves energy."""
    task = two_ops()
    solution = Exact().solve(OneShotEnv(task))
    backing = evaluate_plan(task, all_backing(task))
    assert solution.report.latency_ps == backing.latency_ps
    assert solution.report.energy_j < backing.energy_j
    assert solution.plan.tensor_levels(task.program)[2] < task.backing
    assert solution.backing_port_s < backing_port_ps(task, all_backing(task)) * PS


def test_a_plan_is_preferred_by_latency_then_by_port_time():
    task = two_ops()
    backing = all_backing(task)
    fast = place_levels(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan
    assert backing_port_ps(task, fast) < backing_port_ps(task, backing)
    evaluator = OneShotEvaluator(OneShotEnv(task), budget=10)
    part = evaluator.part(0.5)
    evaluator.offer(fast)
    part.offer(backing)
    # The part's own plan is replaced, that of the whole is as good already.
    part.prefer(fast)
    before, none = (found.solution("any", 0).backing_port_before_s for found in (part, evaluator))
    assert part.solution("any", 0).plan == fast
    assert before == backing_port_ps(task, backing) * PS
    assert none is None
    evaluator.prefer(backing)
    assert evaluator.incumbent == fast
    # A faster plan is no tie-break, so that nothing is said of the port before.
    faster = OneShotEvaluator(OneShotEnv(random_dag(3, ops=12), "nnp-i"), budget=10)
    faster.offer(all_backing(faster.env.task))
    faster._port_before_ps = 1
    faster.prefer(native_plan(faster.env.task))
    assert faster.solution("any", 0).backing_port_before_s is None
    assert (evaluator.evaluations, part.evaluations) == (2, 1)


@pytest.mark.parametrize(("agent", "kind"), [(Auto, OneShotEnv), (Portfolio, MallocGameEnv)])
def test_the_plan_of_a_search_after_the_proof_is_improved_too(agent, kind, monkeypatch):
    """The best plan of the other stages is improved if the exact agent finds nothing."""
    monkeypatch.setattr(Exact, "run", lambda self, evaluator, seed: Verdict())
    chip = chip_with(10_000, 50_000) if kind is OneShotEnv else load_accelerator("ethos-u65")
    env = kind(make_task(random_dag(3, ops=12), chip))
    _, solution = check(agent, env, budget=200)
    assert solution.backing_port_before_s is None or solution.backing_port_s < solution.backing_port_before_s


def test_there_are_two_tie_breaks():
    for agent in (Exact, ExactDynamic, Auto, Portfolio):
        with pytest.raises(AgentError, match="tie_break must be backing or none, not 'slack'"):
            agent(tie_break="slack")


def test_a_program_whose_bounds_can_not_be_moved_is_not_solved_again(monkeypatch):
    """The model rounds the costs of slices that are alike, so that its answer stays slower than the best plan."""
    solved = []
    solve = Remaining.solve

    def counted(self, program, start, whole):
        solved.append(whole)
        return solve(self, program, start, whole)

    monkeypatch.setattr(Remaining, "solve", counted)
    Exact().solve(gym.make("MemPlace-DistilBERT-edge-tpu-v0", slices=0.1).unwrapped)
    assert set(solved) == {False, True}
    assert len(solved) < ROUNDS / 2
