"""Agents where a black box judges: Exact says that it cannot, all others return the best plan that they tried."""

from dataclasses import replace

import gymnasium as gym
import pytest

from memplace_agents import Exact, ExactDynamic, make_agent
from memplace_agents.registry import agent_specs
from memplace_agents.search.racing import box_is_noisy
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import all_backing_report, native_report
from memplace_env.placement.simulator import BuiltinSimulator, evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import violations
from memplace_env.testing import RandomCosts, check_simulator
from tests.agents.planted import planted_env
from tests.agents.quick import make_quick

PLAYED = [(name, formulation) for formulation in Formulation for name in agent_specs(formulation)]
PLAYED = [(name, formulation) for name, formulation in PLAYED if name not in ("exact", "exact-dynamic")]


class Crowded:
    """Blocks that are alive at the same op get in each other's way, by the square of their number: not additive."""

    def __init__(self):
        self.asked = []

    def run(self, program, accelerator, plan):
        report = BuiltinSimulator().run(program, accelerator, plan)
        first, last = plan.allocations[:, 3], plan.allocations[:, 4]
        alive = [int(((first <= op) & (last >= op)).sum()) for op in range(program.num_ops)]
        crowd = int(report.op_time_ps.sum()) // (20 * program.num_ops) * sum(count**2 for count in alive)
        self.asked.append(report.latency_ps + crowd)
        return replace(report, latency_ps=self.asked[-1], traffic_bound_ps=1)

    def __reduce__(self):
        return type(self), ()


class Contrary(Crowded):
    """Fast memory is slow: the best plan leaves everything in the backing memory."""

    def run(self, program, accelerator, plan):
        report = BuiltinSimulator().run(program, accelerator, plan)
        fast = int((plan.use_level < accelerator.backing).sum()) + len(plan.allocations) + len(plan.transfers)
        self.asked.append(10**9 + 10**6 * fast)
        return replace(report, latency_ps=self.asked[-1], traffic_bound_ps=1)


def boxed(formulation, simulator, seed=3, ops=7):
    if formulation is Formulation.ONE_SHOT:
        return gym.make("MemPlace-v0", workload=random_dag(seed, ops=ops, largest=4_000_000), simulator=simulator)
    if formulation is Formulation.STEPS:
        return gym.make("MemPlaceSteps-v0", workload=random_dag(seed, ops=ops, largest=4_000_000), simulator=simulator)
    program = random_dag(seed, ops=ops, largest=60_000_000)
    return gym.make("MallocGame-v0", workload=program, simulator=simulator)


@pytest.mark.parametrize("simulator", [Crowded(), Contrary()])
def test_the_simulators_here_keep_to_their_own_contract(simulator):
    check_simulator(simulator)


@pytest.mark.parametrize("kind", [Exact, ExactDynamic])
@pytest.mark.parametrize("simulator", [Crowded(), BuiltinSimulator(RandomCosts(1))])
def test_exact_says_that_it_cannot(kind, simulator):
    env = boxed(Formulation.ONE_SHOT, simulator)
    with pytest.raises(AgentError, match=rf"^{kind.name} needs the cost arrays .* or use another agent\.$") as caught:
        kind().solve(env)
    assert "\n" not in str(caught.value)


def test_what_stands_for_the_cost_arrays_is_no_black_box():
    for simulator in (None, "builtin", BuiltinSimulator()):
        assert Exact().solve(boxed(Formulation.ONE_SHOT, simulator)).outcome == "optimal"


@pytest.mark.parametrize(("name", "formulation"), PLAYED)
def test_the_answer_is_the_best_that_the_black_box_was_asked_about(name, formulation):
    env, reports = boxed(formulation, Crowded()).unwrapped, []
    native_report(env.task), all_backing_report(env.task), box_is_noisy(env.task)
    asked = env.task.simulator.asked
    asked.clear()
    budget = 24 if agent_specs()[name].learns else 300
    solution = make_quick(name).solve(env, budget=budget, seed=1, callback=reports.append)
    assert violations(env.task, solution.plan) == []
    assert solution.report.latency_ps == min(asked) == evaluate_plan(env.task, solution.plan).latency_ps
    assert reports[-1].latency_s == solution.history[-1].latency_s == solution.report.latency_s
    assert len(asked) <= solution.evaluations + 2, "a slow simulator is asked once for each plan that counts"
    assert solution.evaluations <= budget


@pytest.mark.parametrize("name", ["random", "greedy-dp", "local-search"])
def test_one_shot_searches_follow_the_black_box(name):
    """The black box rewards the opposite of the cost arrays."""
    env = planted_env(ops=4)
    env = OneShotEnv(replace(env.task, simulator=Contrary()))
    solution = make_agent(name).solve(env, budget=3000)
    assert solution.report.latency_ps == 10**9
    assert len(solution.plan.allocations) == 0


def test_egrl_follows_the_black_box():
    env = OneShotEnv(replace(planted_env(ops=4).task, simulator=Contrary()))
    assert make_quick("egrl").solve(env, budget=200).report.latency_ps == 10**9
